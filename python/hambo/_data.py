"""Logged data as users hold them: files, arrays, frames, data sets of Minari and d3rlpy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _hambo
from ._errors import DataError
from ._optional import load

# Names under which an array is known, the best first; as in NPZ files.
_NAMES = {
    "states": ("observations", "obs", "observation", "states"),
    "actions": ("actions", "acts", "action"),
    "rewards": ("rewards", "rews", "reward"),
    "next_states": ("next_observations", "next_obs", "next_observation", "next_states"),
    "terminals": ("terminals", "terminal", "terminations", "terminated", "dones", "done"),
    "timeouts": ("timeouts", "timeout", "truncations", "truncated"),
    "episode_starts": ("episode_starts",),
}

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


class Transitions:
    """Logged transitions as arrays, one row a step, episodes one after another.

    `states` and `next_states` are [n, state], `actions` [n, action], the others [n]. Without `next_states` the state that
    follows is the next row's. `terminals`: the next state ended the episode for good; `timeouts`: the log was cut there.
    Arrays of contiguous float32 are not copied here.
    """

    def __init__(
        self,
        states: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        next_states: ArrayLike | None = None,
        terminals: ArrayLike | None = None,
        timeouts: ArrayLike | None = None,
    ) -> None:
        self.states = _matrix("states", states)
        n, width = self.states.shape
        self.actions = _matrix("actions", actions, n)
        self.rewards = _vector("rewards", rewards, n)
        self.next_states = None if next_states is None else _matrix("next_states", next_states, n, width)
        self.terminals = np.zeros(n, dtype=np.bool_) if terminals is None else _flags("terminals", terminals, n)
        self.timeouts = None if timeouts is None else _flags("timeouts", timeouts, n)

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        n, width = self.states.shape
        return f"<hambo.Transitions: {n} rows, states of {width}, actions of {self.actions.shape[1]} dimensions>"


def read(data: object, options: _hambo.Options) -> tuple[list[str], _hambo.Logs | None]:
    """The paths of data in files, or the logs of data in memory."""
    paths = _paths(data)
    if paths is not None:
        if "" in paths:
            raise DataError("data: a path is empty: expected the name of a file or folder")
        return paths, None
    if _is_frame(data):
        return [], _hambo.Logs.table(_columns(data), options)
    if options[0]:
        raise DataError("columns are named in frames, CSV and Parquet files: arrays are named by themselves")
    rows = _rows(data)
    arrays = (rows.states, rows.actions, rows.rewards, rows.next_states, rows.terminals, rows.timeouts)
    return [], _hambo.Logs.rows(arrays, options)


def _paths(data: object) -> list[str] | None:
    if isinstance(data, (str, os.PathLike)):
        return [os.fspath(data)]
    if isinstance(data, Sequence) and len(data) > 0 and all(isinstance(d, (str, os.PathLike)) for d in data):
        return [os.fspath(d) for d in data]
    if _is_from(data, "minari"):
        return _minari_folder(data)
    return None


def _rows(data: object) -> Transitions:
    if isinstance(data, Transitions):
        return data
    if isinstance(data, Mapping):
        return _of_arrays(data)
    if _is_from(data, "minari"):
        return _of_minari(data)
    if _is_from(data, "d3rlpy") and hasattr(data, "episodes"):
        return _of_d3rlpy(data)
    raise DataError(
        f"data: {type(data).__module__}.{type(data).__qualname__} is nothing that holds transitions; expected a path or a list "
        "of paths, hambo.Transitions, a dict of arrays, a pandas or polars frame, a Minari or a d3rlpy data set"
    )


def _is_from(thing: object, package: str) -> bool:
    return any(c.__module__.split(".")[0] == package for c in type(thing).__mro__)


def _is_frame(data: object) -> bool:
    named = {c.__name__ for c in type(data).__mro__}
    if _is_from(data, "pandas"):
        return "DataFrame" in named
    return _is_from(data, "polars") and bool(named & {"DataFrame", "LazyFrame"})


def _columns(frame: Any) -> list[_hambo.Column]:
    """The columns of a frame: numbers and flags as float64, anything else as text."""
    found: list[_hambo.Column] = []
    if _is_from(frame, "polars"):
        polars = load("polars", "a polars frame")
        frame = frame.collect() if isinstance(frame, polars.LazyFrame) else frame
        for column in frame.get_columns():
            if column.dtype.is_numeric() or column.dtype == polars.Boolean:
                found.append((column.name, np.ascontiguousarray(column.cast(polars.Float64).to_numpy())))
            else:
                found.append((column.name, [str(value) for value in column.to_list()]))
        return found
    pandas = load("pandas", "a pandas frame")
    for i, name in enumerate(frame.columns):
        column = frame.iloc[:, i]
        if pandas.api.types.is_numeric_dtype(column.dtype) or pandas.api.types.is_bool_dtype(column.dtype):
            found.append((str(name), np.ascontiguousarray(column.to_numpy(dtype=np.float64, na_value=np.nan))))
        else:
            found.append((str(name), [str(value) for value in column]))
    return found


def _of_arrays(arrays: Mapping[Any, Any]) -> Transitions:
    found = {role: _named(arrays, names) for role, names in _NAMES.items()}
    for role in ("states", "actions", "rewards"):
        if found[role] is None:
            names = ", ".join(f"`{name}`" for name in _NAMES[role])
            there = ", ".join(f"`{key}`" for key in arrays) or "nothing"
            raise DataError(f"data: no array for the {role} ({names}): the dict has {there}")
    starts = found.pop("episode_starts")
    n = len(_vector("rewards", found["rewards"]))
    states = _matrix("states", found["states"])
    if len(states) == n + 1 and found["next_states"] is None and n > 0:
        return _one_episode(states, found, n)
    if starts is not None:
        # The row before each start is the last of its episode.
        first = _flags("episode_starts", starts, n)
        ended = np.append(first[1:], True)
        terminals = np.zeros(n, np.bool_) if found["terminals"] is None else _flags("terminals", found["terminals"], n)
        timeouts = np.zeros(n, np.bool_) if found["timeouts"] is None else _flags("timeouts", found["timeouts"], n)
        found["timeouts"] = timeouts | (ended & ~terminals)
    return Transitions(**found)


def _one_episode(states: Floats, found: dict[str, Any], n: int) -> Transitions:
    """One state more than actions: the state after the last of them."""
    terminals = np.zeros(n, np.bool_) if found["terminals"] is None else _flags("terminals", found["terminals"], n)
    timeouts = np.zeros(n, np.bool_) if found["timeouts"] is None else _flags("timeouts", found["timeouts"], n)
    if (terminals | timeouts)[:-1].any():
        row = int(np.argmax(terminals | timeouts))
        raise DataError(
            f"data: an episode ends in row {row}, but with {n + 1} states and {n} actions there is one episode of {n} steps: "
            "give `next_states`"
        )
    timeouts[-1] = not terminals[-1]
    return Transitions(states[:-1], found["actions"], found["rewards"], states[1:], terminals, timeouts)


def _named(arrays: Mapping[Any, Any], names: tuple[str, ...]) -> Any:
    return next((arrays[name] for name in names if name in arrays), None)


def _minari_folder(data: Any) -> list[str] | None:
    """Where a data set of Minari is, if all of it is meant and it is HDF5."""
    storage = getattr(data, "storage", None)
    if storage is None:
        return None
    folder = Path(storage.data_path)
    whole = len(data.episode_indices) == storage.total_episodes
    return [str(folder)] if whole and (folder / "main_data.hdf5").is_file() else None


def _of_minari(data: Any) -> Transitions:
    if not hasattr(data, "iterate_episodes"):
        raise DataError(f"data: {type(data).__name__} of Minari is no data set: expected a MinariDataset")
    parts: list[list[Any]] = [[] for _ in range(6)]
    for episode in data.iterate_episodes():
        states = episode.observations
        if not isinstance(states, np.ndarray):
            raise DataError("data: the observations of this Minari data set are not arrays: flatten them first")
        terminals = np.asarray(episode.terminations, dtype=np.bool_)
        timeouts = np.asarray(episode.truncations, dtype=np.bool_).copy()
        if len(timeouts) > 0:
            timeouts[-1] |= not terminals[-1]
        columns = (states[:-1], episode.actions, episode.rewards, states[1:], terminals, timeouts)
        for part, column in zip(parts, columns, strict=True):
            part.append(column)
    return _joined(parts)


def _of_d3rlpy(data: Any) -> Transitions:
    parts: list[list[Any]] = [[] for _ in range(6)]
    for episode in data.episodes:
        n = len(episode.actions)
        terminals, timeouts = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        if n > 0:
            terminals[-1], timeouts[-1] = bool(episode.terminated), not episode.terminated
        states = np.asarray(episode.observations)
        columns = (states, episode.actions, np.reshape(episode.rewards, -1), terminals, timeouts)
        for i, column in zip((0, 1, 2, 4, 5), columns, strict=True):
            parts[i].append(column)
    return _joined(parts)


def _joined(parts: list[list[Any]]) -> Transitions:
    if not parts[0]:
        raise DataError("data: the data set has no episodes")
    columns: list[Any] = [np.concatenate(part) if part else None for part in parts]
    return Transitions(*columns)


def _numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
    except ValueError as problem:
        raise DataError(f"data: {name} are no array: {problem}") from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"data: {name} hold {array.dtype}: expected numbers")
    return array


def _floats(name: str, array: NDArray[Any]) -> Floats:
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(narrow)
    if not finite.all():
        place = np.argwhere(~finite)[0]
        where = f"row {place[0]}" + (f", column {place[1]}" if array.ndim == 2 else "")
        value = array[tuple(place)]
        raise DataError(f"data: {name}, {where}: {value} is not a finite float32 number: remove or repair such rows")
    return narrow


def _matrix(name: str, values: ArrayLike, rows: int | None = None, width: int | None = None) -> Floats:
    array = _numbers(name, values)
    expected = f"[{'n' if rows is None else rows}, {'numbers of a row' if width is None else width}]"
    right = array.ndim == 2 and (rows is None or len(array) == rows) and (width is None or array.shape[1] == width)
    if not right:
        raise DataError(f"data: {name} have shape {list(array.shape)}: expected {expected}")
    return _floats(name, array)


def _vector(name: str, values: ArrayLike, rows: int | None = None) -> Floats:
    array = _numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or (rows is not None and len(array) != rows):
        raise DataError(f"data: {name} have shape {list(array.shape)}: expected [{'n' if rows is None else rows}]")
    return _floats(name, array)


def _flags(name: str, values: ArrayLike, rows: int) -> Flags:
    array = _numbers(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (rows,):
        raise DataError(f"data: {name} have shape {list(array.shape)}: expected [{rows}]")
    wrong = (array != 0) & (array != 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"data: {name}, row {row}: {array[row]}: expected 0 or 1, True or False")
    return np.ascontiguousarray(array, dtype=np.bool_)
