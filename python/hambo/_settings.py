"""Settings of an evaluation, as flags of the command: both are read by the same code."""

from __future__ import annotations

import difflib
import json
import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from ._errors import SettingError
from ._progress import Report

StrPath = str | os.PathLike[str]
RewardFunction = Callable[[Any, Any, Any], Any]
TerminationFunction = Callable[[Any], Any]


class Settings(TypedDict, total=False):
    """What can be said besides data, policy and horizon. What is left out is as in the command."""

    env: Any
    """A built-in environment by its name, a gymnasium id, or a gymnasium environment."""
    task: StrPath | None
    """A task file."""
    reward: str | RewardFunction | None
    """An expression, `learned`, or a function of states, actions and next states on batches."""
    termination: str | TerminationFunction | None
    """An expression, `learned`, `none`, or a function of next states on batches."""
    angles: Sequence[int] | None
    """Entries of the state that are angles."""
    worst_reward: float | None
    """What a step pays at the least."""
    gamma: float
    """Discount factor, above 0 and up to 1."""
    threshold: float | None
    """The return that the bound has to reach."""
    accept_extrapolation: bool
    """Let a bound that the data do not support reach the threshold, too."""
    methods: str | Sequence[str] | None
    """Methods to run; the bound of the first counts."""
    beta: str | float | None
    """Size of the confidence set: a rule or a number."""
    delta: float
    """Probability with which the bound may fail."""
    risk: float | None
    """Bound the mean return of this worst share of episodes (CVaR) in place of the mean."""
    rollouts: int | None
    """Trajectories of an estimate."""
    effort: Literal["quick", "standard", "best"]
    """How much time to take."""
    model: Literal["bnn", "gp"] | None
    """Kind of dynamics model."""
    model_config: Mapping[str, Any] | StrPath | None
    """Settings of the model: a dict, or a JSON file."""
    search_config: Mapping[str, Any] | StrPath | None
    """Settings of the search for adversaries: a dict, or a JSON file."""
    fitted: StrPath | None
    """A folder with a fitted model, in place of fitting one."""
    gp_rows: int | None
    """Rows that a Gaussian process is conditioned on."""
    norm_bound: float | None
    """For `beta="theory"`."""
    allow_constant: bool
    """Accept data in which a column never changes."""
    stochastic: bool
    """Sample actions from the policy's own distribution."""
    policy_noise: float
    """Standard deviation of noise on the policy's actions."""
    normalizer: StrPath | None
    """The normalizer of agents in files, or `none`."""
    columns: Mapping[str, str | Sequence[str]] | None
    """Which columns of a table hold what, as in `{"state": ["x", "y"], "action": "u"}`."""
    subsample: int | str | None
    """Use only so many transitions."""
    truth_episodes: int | None
    """Measure the true return in so many episodes of `env`."""
    curves: bool
    """Also bound the return for other horizons, betas and less data."""
    seed: int
    """Seed of everything random."""
    device: Literal["auto", "cpu", "cuda"]
    """Where to compute."""
    threads: int | None
    """Threads of the CPU."""
    out: StrPath | None
    """A folder for report, result and model; what is interrupted goes on from there."""
    force: bool
    """Replace the finished result that `out` holds."""
    save_every: float | None
    """Seconds between saves of unfinished work to `out`."""
    progress: bool | Report | None
    """Bars of tqdm, nothing, or a function of stage, done, total and note."""


class LearnSettings(Settings, total=False):
    """What can be said besides data, adversary and folder when a policy is learned."""

    steps: int | None
    """Gradient steps of policy and adversary."""
    learn_config: Mapping[str, Any] | StrPath | None
    """Settings of the learning: a dict, or a JSON file."""


def check_names(function: str, settings: Mapping[str, Any]) -> None:
    """A TypeError for a setting that there is not."""
    known = (LearnSettings if function == "learn" else Settings).__annotations__
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise TypeError(f"hambo.{function}() got an unexpected keyword argument {name!r}{hint}")


def flags(settings: Mapping[str, Any], folder: Path) -> list[str]:
    """The flags. `folder` takes files of the moment."""
    found = []
    for name, value in settings.items():
        if value is None or name in ("env", "progress", "columns"):
            continue
        if name in ("reward", "termination") and callable(value):
            continue  # handed over as it is
        convert = _FLAGS.get(name)
        if convert is not None:
            found += convert(name, value)
        elif isinstance(value, Mapping):
            file = folder / f"{name}.json"
            try:
                file.write_text(json.dumps(value))
            except TypeError as problem:
                raise SettingError(f"{name}: {problem}") from None
            found.append(f"{_flag(name)}={file}")
        else:
            found += _path(name, value)
    return found


def column_words(columns: Any) -> list[str]:
    """What the flag `--columns` takes."""
    if columns is None:
        return []
    if not isinstance(columns, Mapping):
        raise SettingError(f"columns = {columns!r}: expected a dict such as {{'state': ['x', 'y'], 'action': 'u'}}")
    names = {role: [value] if isinstance(value, str) else list(value) for role, value in columns.items()}
    return [f"{role}={','.join(map(str, value))}" for role, value in names.items()]


def integer(name: str, value: Any) -> int:
    """A whole number."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise SettingError(f"{name} = {value!r}: expected a whole number") from None


def _flag(name: str) -> str:
    return f"--{_RENAMED.get(name, name).replace('_', '-')}"


_RENAMED = {"gamma": "discount", "methods": "method"}


def _integer(name: str, value: Any) -> list[str]:
    return [f"{_flag(name)}={integer(name, value)}"]


def _number(name: str, value: Any) -> list[str]:
    try:
        if isinstance(value, (bool, str)):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise SettingError(f"{name} = {value!r}: expected a number") from None
    if math.isnan(number):
        raise SettingError(f"{name} = {value!r}: expected a number")
    return [f"{_flag(name)}={number!r}"]


def _text(name: str, value: Any) -> list[str]:
    if not isinstance(value, str):
        raise SettingError(f"{name} = {value!r}: expected text")
    return [f"{_flag(name)}={value}"]


def _path(name: str, value: Any) -> list[str]:
    if not isinstance(value, (str, os.PathLike)):
        raise SettingError(f"{name} = {value!r}: expected a path")
    return [f"{_flag(name)}={os.fspath(value)}"]


def _switch(name: str, value: Any) -> list[str]:
    if not isinstance(value, bool):
        raise SettingError(f"{name} = {value!r}: expected True or False")
    return [_flag(name)] if value else []


def _accept(name: str, value: Any) -> list[str]:
    return ["--accept=extrapolation"] if _switch(name, value) else []


def _list(name: str, value: Any) -> list[str]:
    if not isinstance(value, (str, Sequence)):
        raise SettingError(f"{name} = {value!r}: expected a list")
    items = [value] if isinstance(value, str) else value
    return [f"{_flag(name)}={','.join(str(item) for item in items)}"]


def _number_or_text(name: str, value: Any) -> list[str]:
    return _text(name, value) if isinstance(value, str) else _number(name, value)


def _count_or_text(name: str, value: Any) -> list[str]:
    return _text(name, value) if isinstance(value, str) else _integer(name, value)


_FLAGS: dict[str, Callable[[str, Any], list[str]]] = {
    "reward": _text,
    "termination": _text,
    "angles": _list,
    "worst_reward": _number,
    "gamma": _number,
    "threshold": _number,
    "accept_extrapolation": _accept,
    "methods": _list,
    "beta": _number_or_text,
    "delta": _number,
    "risk": _number,
    "rollouts": _integer,
    "effort": _text,
    "model": _text,
    "gp_rows": _integer,
    "norm_bound": _number,
    "allow_constant": _switch,
    "stochastic": _switch,
    "policy_noise": _number,
    "subsample": _count_or_text,
    "truth_episodes": _integer,
    "curves": _switch,
    "seed": _integer,
    "device": _text,
    "threads": _integer,
    "save_every": _number,
    "force": _switch,
    "steps": _integer,
}
