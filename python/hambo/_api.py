"""Evaluations and rankings: what users hold becomes flags, arrays and files, and the command's code does the rest."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import _data, _env, _hambo, _policies
from ._errors import PolicyError, SettingError
from ._progress import Bars, Report, reporter
from ._result import Inspection, Ranking, Result
from ._settings import Settings, StrPath, check_names, column_words, flags, integer

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Found = TypeVar("_Found")


@dataclass
class _Asked:
    """What is handed to the native half."""

    flags: list[str]
    logs: _hambo.Logs | None
    policies: list[_hambo.Handed]
    environment: _hambo.Spaces | None
    progress: Report | None
    command: str
    program: str


def evaluate(data: Any, policy: Any, *, horizon: int, **settings: Unpack[Settings]) -> Result:
    """Bounds the return of a policy from below, from logged data alone.

    `data`: a path or several (HDF5, NPZ, CSV, Parquet, a Minari folder, `minari:NAME`), `hambo.Transitions`, a dict of
    arrays, a pandas or polars frame, a Minari or d3rlpy data set.
    `policy`: a path, `builtin:NAME`, an agent of Stable-Baselines3 or d3rlpy, a `torch.nn.Module`, or a function from
    states [rows, state] to actions [rows, action], which is called once a batch and step.
    `horizon`: steps of an episode.

    Settings, all of which have the command's defaults: `env` (a built-in environment, a gymnasium id or environment),
    `task`, `reward`, `termination`, `angles`, `worst_reward`, `gamma`, `threshold`, `accept_extrapolation`, `methods`,
    `beta`, `delta`, `rollouts`, `effort`, `model`, `model_config`, `search_config`, `fitted`, `gp_rows`, `norm_bound`,
    `allow_constant`, `stochastic`, `policy_noise`, `normalizer`, `columns`, `subsample`, `truth_episodes`, `curves`,
    `seed`, `device`, `threads`, `out`, `force`, `save_every`, `progress`; `hambo.Settings` says what they are.
    """
    return Result(_run("evaluate", _hambo.evaluate, data, [policy], horizon, settings))


def rank(data: Any, policies: Sequence[Any], *, horizon: int, **settings: Unpack[Settings]) -> Ranking:
    """Bounds the returns of several policies with one model, such that all bounds hold together, and sorts them.

    Data, policies and settings are those of `hambo.evaluate`.
    """
    if isinstance(policies, (str, os.PathLike)) or not isinstance(policies, Sequence) or len(policies) == 0:
        raise PolicyError(f"policies = {policies!r}: expected a list of one policy or more")
    return Ranking(_run("rank", _hambo.rank, data, list(policies), horizon, settings))


def fit(data: Any, **settings: Unpack[Settings]) -> Model:
    """Learns a model of the data, for evaluations of many policies or with other settings.

    Settings are those of `hambo.evaluate`; those of the task (`env`, `task`, `reward`, …) and of the model count here.
    """
    files = _run("fit", _hambo.fit, data, [], 1, {**settings, "out": None, "fitted": None, "threshold": None})
    return Model(data, settings, {Path(name).name: content for name, content in files})


class Model:
    """A model that was learned from data."""

    def __init__(self, data: Any, settings: Mapping[str, Any], files: dict[str, bytes]) -> None:
        self._data, self._settings, self._files = data, dict(settings), files

    def evaluate(self, policy: Any, *, horizon: int, **settings: Unpack[Settings]) -> Result:
        """As `hambo.evaluate`, on this model. Settings are those of the fit unless they are given here."""
        with tempfile.TemporaryDirectory(prefix="hambo-") as folder:
            self.save(folder)
            return evaluate(self._data, policy, horizon=horizon, **self._with(settings, folder))

    def rank(self, policies: Sequence[Any], *, horizon: int, **settings: Unpack[Settings]) -> Ranking:
        """As `hambo.rank`, on this model. Settings are those of the fit unless they are given here."""
        with tempfile.TemporaryDirectory(prefix="hambo-") as folder:
            self.save(folder)
            return rank(self._data, policies, horizon=horizon, **self._with(settings, folder))

    def save(self, folder: StrPath) -> None:
        """Writes model.json and model.safetensors, for `fitted=`."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, content in self._files.items():
            (place / name).write_bytes(content)

    def _with(self, settings: Settings, folder: str) -> Settings:
        for name in ("model_config", "fitted"):
            if settings.get(name) is not None:
                raise SettingError(f"{name}: the model is fitted already; hambo.fit takes its settings")
        merged: Any = {**self._settings, **settings, "fitted": folder, "model_config": None}
        return merged  # type: ignore[no-any-return]


def inspect(
    data: StrPath | Sequence[StrPath],
    *,
    policy: StrPath | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
) -> Inspection:
    """What is in data files, or in a policy's; with `policy`, how much of what it does the data cover."""
    paths = [data] if isinstance(data, (str, os.PathLike)) else list(data)
    names = [os.fspath(path) for path in paths]
    words = [f"--columns={word}" for word in column_words(columns)]
    words += [] if policy is None else [f"--policy={os.fspath(policy)}"]
    found = json.loads(_hambo.inspect([*words, "--json", "--", *names], names))
    return Inspection(_hambo.inspect([*words, "--", *names], names), found)


def _run(
    function: str,
    native: Callable[[_hambo.Asked], _Found],
    data: Any,
    policies: list[Any],
    horizon: int,
    settings: Mapping[str, Any],
) -> _Found:
    check_names(function, settings)
    progress = reporter(settings.get("progress"))
    seed = integer("seed", settings.get("seed") or 0)
    subsample = settings.get("subsample")
    with tempfile.TemporaryDirectory(prefix="hambo-") as folder:
        place = Path(folder)
        words = [f"--horizon={integer('horizon', horizon)}", *flags(settings, place)]
        env, spaces = _env.resolve(settings.get("env"), seed)
        if spaces is not None and settings.get("task") is not None:
            raise SettingError("env and task: an environment that is not built in cannot be combined with a task file")
        if settings.get("save_every") is not None and settings.get("out") is None:
            raise SettingError("save_every: nothing is saved without out")
        words += [] if env is None else [f"--env={env}"]
        columns = column_words(settings.get("columns"))
        prepared = [_policies.prepare(policy, place, i) for i, policy in enumerate(policies)]
        if seed < 0:
            raise SettingError(f"seed = {seed}: expected 0 or larger")
        options = (columns, None if subsample is None else str(subsample), seed)
        paths, logs = _data.read(data, options)
        words += [f"--columns={word}" for word in columns if logs is None]
        words += [f"--data={path}" for path in (paths or ["(in memory)"])]
        words += [f"--policy={name}" for name, _ in prepared]
        asked = _Asked(
            words, logs, [handed for _, handed in prepared], spaces, progress, _call(function, horizon, settings), str(_hambo.__file__)
        )
        try:
            return native(asked)
        finally:
            if isinstance(progress, Bars):
                progress.close()


def _call(function: str, horizon: int, settings: Mapping[str, Any]) -> str:
    """The call in words, for the report."""
    plain = {name: value for name, value in settings.items() if name != "progress" and value is not None}
    words = [f"{name}={value!r}" for name, value in {"horizon": horizon, **plain}.items()]
    given = "data, policies" if function == "rank" else "data, policy"
    return f"hambo.{function}({', '.join([given, *words])})"
