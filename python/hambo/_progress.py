"""Progress of long work: bars, a function of the user's, and the log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ._errors import Error, SettingError
from ._optional import load

Report = Callable[[str, int, int, str], object]

logger = logging.getLogger("hambo")
logger.addHandler(logging.NullHandler())  # who wants to see it says so


class _Bars:
    """A bar of tqdm for every stage."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._stage = ""
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int, note: str) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._bar = stage, self._tqdm(total=total, desc=stage, leave=False)
        self._bar.total = total
        self._bar.update(done - self._bar.n)
        if note:
            self._bar.set_postfix_str(note, refresh=False)

    def close(self) -> None:
        """Takes the last bar away."""
        if self._bar is not None:
            self._bar.close()


class _Logged:
    """Writes to the log which stage begins (INFO) and how far it is (DEBUG), and passes reports on."""

    def __init__(self, shown: Report | None) -> None:
        self._shown, self._stage = shown, ""

    def __call__(self, stage: str, done: int, total: int, note: str) -> None:
        if stage != self._stage:
            self._stage = stage
            logger.info("%s", stage)
        logger.debug("%s: %d of %d%s", stage, done, total, f", {note}" if note else "")
        if self._shown is not None:
            self._shown(stage, done, total, note)


@contextmanager
def watching(progress: bool | Report | None) -> Iterator[Report]:
    """Who is told of progress while the work goes on."""
    shown = _shown(progress)
    try:
        yield _Logged(shown)
    finally:
        if isinstance(shown, _Bars):
            shown.close()


def _shown(progress: bool | Report | None) -> Report | None:
    """By default bars, if tqdm is there and someone looks at standard error."""
    if progress is False:
        return None
    if progress is None or progress is True:
        if progress is None and not (sys.stderr is not None and sys.stderr.isatty()):
            return None
        try:
            return _Bars(load("tqdm.auto", "progress=True").tqdm)
        except Error:
            if progress is None:
                return None
            raise
    if callable(progress):
        return progress
    raise SettingError(f"progress = {progress!r}: expected True, False, or a function of stage, done, total, note")
