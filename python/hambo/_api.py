"""Evaluations and rankings: what users hold becomes flags, arrays and files, and the command's code does the rest."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import _called, _data, _env, _hambo, _policies
from ._errors import PolicyError, SettingError
from ._progress import Report, logger, watching
from ._result import Inspection, Learned, Ranking, Result
from ._settings import LearnSettings, Settings, StrPath, check_names, column_words, flags, integer

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
    simulation: _env.Simulation | None = None
    reward: _hambo.Named | None = None
    termination: _hambo.Named | None = None


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
    return _logged(Result(_run("evaluate", _hambo.evaluate, data, [policy], horizon, settings)))


def rank(data: Any, policies: Sequence[Any], *, horizon: int, **settings: Unpack[Settings]) -> Ranking:
    """Bounds the returns of several policies with one model, such that all bounds hold together, and sorts them.

    Data, policies and settings are those of `hambo.evaluate`.
    """
    if isinstance(policies, (str, os.PathLike)) or not isinstance(policies, Sequence) or len(policies) == 0:
        raise PolicyError(f"policies = {policies!r}: expected a list of one policy or more")
    return _logged(Ranking(_run("rank", _hambo.rank, data, list(policies), horizon, settings)))


def learn(data: Any, *, adversary: str, horizon: int | None = None, **settings: Unpack[LearnSettings]) -> Learned:
    """Learns a policy that is good in the worst case, from logged data alone, and bounds its return, as `hambo learn`.

    `adversary`: who plays against the policy, `ca` or `da1`. `out`, which has to be given: the folder for the policy
    (policy.safetensors, policy.onnx), its checkpoints and curve, and all that an evaluation writes; the same call goes on
    where it was stopped. `horizon`: steps of an episode; with a built-in `env` its time limit is the default.

    Settings are those of `hambo.evaluate` that are not about a given policy, `steps`, and `learn_config`.
    """
    said = [f"--adversary={adversary}"] if isinstance(adversary, str) else []
    if not said:
        raise SettingError(f'adversary = {adversary!r}: expected "ca" or "da1"')
    out = settings.get("out")
    if out is None:
        raise SettingError("out: expected a folder for what is learned")
    return _logged(Learned(_run("learn", _hambo.learn, data, [], horizon, settings, said), Path(out)))


_NOT_OF_A_FIT = ("out", "fitted", "threshold", "truth_episodes")


def fit(data: Any, **settings: Unpack[Settings]) -> Model:
    """Learns a model of the data, for evaluations of many policies or with other settings.

    Settings are those of `hambo.evaluate`; those of the task (`env`, `task`, `reward`, …) and of the model count here.
    """
    files = _run("fit", _hambo.fit, data, [], 1, {**settings, **dict.fromkeys(_NOT_OF_A_FIT)})
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
    horizon: int | None,
    settings: Mapping[str, Any],
    more: Sequence[str] = (),
) -> _Found:
    check_names(function, settings)
    seed = integer("seed", settings.get("seed") or 0)
    subsample = settings.get("subsample")
    with ExitStack() as stack:
        progress = stack.enter_context(watching(settings.get("progress")))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hambo-")))
        length = [] if function == "learn" and horizon is None else [f"--horizon={integer('horizon', horizon)}"]
        words = [*more, *length, *flags(settings, place)]
        env = stack.enter_context(_env.resolved(settings.get("env"), seed))
        if env.spaces is not None and settings.get("task") is not None:
            raise SettingError("env and task: an environment that is not built in cannot be combined with a task file")
        if settings.get("save_every") is not None and settings.get("out") is None:
            raise SettingError("save_every: nothing is saved without out")
        words += [] if env.name is None else [f"--env={env.name}"]
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
            words, logs, [handed for _, handed in prepared], env.spaces, progress, _call(function, horizon, settings), str(_hambo.__file__)
        )
        asked.reward = _called.of_task(_called.Reward, settings.get("reward"))
        asked.termination = _called.of_task(_called.Termination, settings.get("termination"))
        asked.simulation = _simulation(env, horizon, settings, seed)
        if asked.simulation is not None:
            stack.callback(asked.simulation.close)
        return native(asked)


def _simulation(env: _env.Resolved, horizon: int | None, settings: Mapping[str, Any], seed: int) -> _env.Simulation | None:
    """Where the true return is measured, if that is asked for and the environment is not built in."""
    episodes = settings.get("truth_episodes")
    if episodes is None or env.spaces is None or horizon is None:
        return None
    return _env.Simulation(env, horizon, max(1, episodes), seed)


_Answer = TypeVar("_Answer", Result, Ranking, Learned)


def _logged(answer: _Answer) -> _Answer:
    """Writes what was found to the log."""
    logger.info("%s", answer.summary)
    ranks = answer.to_dict().get("warning_ranks", [])
    for warning, rank in zip_longest(answer.warnings, ranks):
        logger.log(logging.INFO if rank == "information" else logging.WARNING, "%s", warning)
    return answer


def _call(function: str, horizon: int | None, settings: Mapping[str, Any]) -> str:
    """The call in words, for the report."""
    plain = {name: value for name, value in settings.items() if name != "progress" and value is not None}
    said = {name: _called.name_of(value) if callable(value) else repr(value) for name, value in plain.items()}
    words = [f"{name}={value}" for name, value in {"horizon": horizon, **said}.items() if value is not None]
    given = {"rank": "data, policies", "learn": "data"}.get(function, "data, policy")
    return f"hambo.{function}({', '.join([given, *words])})"
