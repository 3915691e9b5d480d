"""Progress of long work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ._errors import Error, SettingError
from ._optional import load

Report = Callable[[str, int, int, str], object]


class Bars:
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


def reporter(progress: bool | Report | None) -> Report | None:
    """Who is told of progress. By default bars, if tqdm is there and someone looks at standard error."""
    if progress is False:
        return None
    if progress is None or progress is True:
        if progress is None and not (sys.stderr is not None and sys.stderr.isatty()):
            return None
        try:
            return Bars(load("tqdm.auto", "progress=True").tqdm)
        except Error:
            if progress is None:
                return None
            raise
    if callable(progress):
        return progress
    raise SettingError(f"progress = {progress!r}: expected True, False, or a function of stage, done, total, note")
