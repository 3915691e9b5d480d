"""Functions of the user's on batches, whose answers are looked at before they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _hambo
from ._errors import Error, PolicyError, TaskError

Floats = NDArray[np.float32]


class _Called:
    """A function, how often it was called, and what to raise."""

    def __init__(self, what: str, function: Callable[..., Any], error: type[Error], name: str | None = None) -> None:
        self.name = name_of(function) if name is None else name
        self.what, self.function, self.error, self.calls = what, function, error, 0

    def ask(self, kinds: str, expected: str, inputs: tuple[Floats, ...]) -> NDArray[Any]:
        """What it returns, as an array of one of these kinds of numbers."""
        self.calls += 1
        rows = len(inputs[0])
        try:
            found = self.function(*inputs)
        except Exception as problem:
            raise self.wrong(rows, f"raised {type(problem).__name__}: {problem}") from problem
        if hasattr(found, "detach"):  # a tensor
            found = found.detach().cpu().numpy()
        try:
            array = np.asarray(found)
        except ValueError as problem:
            raise self.wrong(rows, f"returned no array: {problem}") from problem
        if array.dtype.kind not in kinds:
            raise self.wrong(rows, f"returned {type(found).__name__} of {array.dtype}: expected {expected}")
        return array

    def shaped(self, array: NDArray[Any], shape: tuple[int, ...], of: str) -> NDArray[Any]:
        """The same, if it has this shape."""
        if array.shape != shape:
            raise self.wrong(shape[0], f"returned {of} of shape {list(array.shape)}: expected {list(shape)}")
        return array

    def finite(self, values: Floats, inputs: tuple[Floats, ...], known: NDArray[np.bool_]) -> Floats:
        """The same, if it is finite wherever the inputs were: where a trajectory has left the numbers it does not matter."""
        wrong = known & ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if wrong.any():
            row = int(np.argmax(wrong))
            given = " and ".join(f"the {name} {array[row].tolist()}" for name, array in zip(_INPUTS, inputs, strict=False))
            raise self.wrong(len(values), f"returned {values[row].tolist()} for {given} (row {row})")
        return values

    def wrong(self, rows: int, what: str) -> Error:
        """The error, with the number of the call."""
        return self.error(f"{self.what} {self.name} {what}, at call {self.calls}, of {rows} states")


_INPUTS = ("state", "action", "next state")


class Policy(_Called):
    """From states [rows, state] to actions [rows, action]."""

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        super().__init__("policy", function, PolicyError, name)

    def __call__(self, states: Floats, action_dim: int) -> Floats:
        known = _finite_rows(states)
        found = self.ask("fiu", "numbers", (states,))
        actions: Floats = np.ascontiguousarray(self.shaped(found, (len(states), action_dim), "actions"), dtype=np.float32)
        return self.finite(actions, (states,), known)


class Reward(_Called):
    """From states, actions and next states to rewards [rows]."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__("reward", function, TaskError)

    def __call__(self, states: Floats, actions: Floats, next_states: Floats) -> Floats:
        inputs = (states, actions, next_states)
        known = np.logical_and.reduce([_finite_rows(array) for array in inputs])
        found = self.ask("fiu", "numbers", inputs)
        with np.errstate(over="ignore"):
            rewards: Floats = np.ascontiguousarray(self.shaped(found, (len(states),), "rewards"), dtype=np.float32)
        return self.finite(rewards, inputs, known)


class Termination(_Called):
    """From next states to whether each ends the episode, bool [rows]."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__("termination", function, TaskError)

    def __call__(self, states: Floats, actions: Floats, next_states: Floats) -> Floats:
        known = _finite_rows(next_states)
        found = self.ask("b", "True or False for each", (next_states,))
        ends: Floats = np.ascontiguousarray(self.shaped(found, (len(next_states),), "flags"), dtype=np.float32)
        # A trajectory that has left the numbers has diverged, whatever the function says of it.
        ends[~known] = np.nan
        return ends


def of_task(kind: Callable[[Any], Reward | Termination], function: Any) -> _hambo.Named | None:
    """What is handed over for a reward or a termination, if it is a function."""
    if function is None or isinstance(function, str) or not callable(function):
        return None
    called = kind(function)
    return called.name, called


def name_of(function: Any) -> str:
    """What a function is called."""
    return str(getattr(function, "__name__", type(function).__name__))


def _finite_rows(array: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(array).all(axis=1), dtype=np.bool_)
