"""Environments: those that are built in, and what gymnasium says of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _hambo
from ._errors import TaskError
from ._optional import load

# Those of gymnasium that are built in.
_BUILT_IN = {
    "Pendulum-v1": "pendulum",
    **{f"Hopper-v{v}": f"hopper-v{v}" for v in (2, 3, 4, 5)},
    **{f"HalfCheetah-v{v}": f"halfcheetah-v{v}" for v in (2, 3, 4, 5)},
}
# Wrappers that change neither states nor actions nor rewards.
_PLAIN = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "Autoreset"}
# Resets whose states stand for the distribution of initial states.
RESETS = 1000


# Episodes that run side by side, where environments are made here.
WIDTH = 64


@dataclass
class Resolved:
    """What is known of an environment."""

    name: str | None = None
    """Of one that is built in."""
    spaces: _hambo.Spaces | None = None
    """Of another one."""
    env: Any = None
    """That one."""
    is_made_here: bool = False
    """Whether more of it can be made, by its id."""


@contextmanager
def resolved(env: Any, seed: int) -> Iterator[Resolved]:
    """What is known of an environment, while it is open."""
    found = _resolve(env, seed)
    try:
        yield found
    finally:
        if found.is_made_here:
            found.env.close()


def _resolve(env: Any, seed: int) -> Resolved:
    if env is None:
        return Resolved()
    if isinstance(env, str):
        if env in _BUILT_IN:
            return Resolved(_BUILT_IN[env])
        # Ids of gymnasium have capitals; `hopper-v5` is built in.
        if re.fullmatch(r"([\w-]+/)?[A-Z][\w.-]*-v\d+", env):
            made = _make(env)
            try:
                return Resolved(None, _spaces(made, env, seed), made, True)
            except TaskError:
                made.close()
                raise
        return Resolved(env)
    if not all(hasattr(env, name) for name in ("action_space", "observation_space", "reset")):
        raise TaskError(f"env = {env!r}: expected a name, a gymnasium id, or a gymnasium environment")
    if hasattr(env, "num_envs"):
        raise TaskError("env is a vector of environments: give one of them")
    spec = getattr(env, "spec", None)
    name = getattr(spec, "id", None)
    changed = {key for key in getattr(spec, "kwargs", None) or {} if key != "render_mode"}
    if name in _BUILT_IN and not changed and _is_plain(env):
        return Resolved(_BUILT_IN[name])
    return Resolved(None, _spaces(env, name or type(env).__name__, seed), env)


class Simulation:
    """Episodes in environments, by their own steps.

    An environment that was given is the only one of its kind: a copy might share what is behind it. So its episodes follow
    each other.
    """

    def __init__(self, known: Resolved, horizon: int, episodes: int, seed: int) -> None:
        if known.spaces is None:
            raise TaskError("truth_episodes: nothing is known of the environment")
        self._name, low, high, _ = known.spaces
        self._bounds, self._horizon, self._seed = (low, high), horizon, seed
        more = min(WIDTH, episodes) - 1 if known.is_made_here else 0
        self._made = [_make(self._name) for _ in range(more)]
        self._envs = [known.env, *self._made]
        self._running: list[bool] = []
        self._states: list[Any] = []
        self._steps = 0
        self.width = len(self._envs)

    def close(self) -> None:
        """Closes what was made here."""
        for env in self._made:
            env.close()

    def start(self, first: int, count: int) -> NDArray[np.float32]:
        """Begins these episodes; every one has a seed of its own."""
        self._running, self._steps, self._states = [True] * count, 0, []
        for number, env in zip(range(first, first + count), self._envs, strict=False):
            seed = int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0] % 2**31)
            self._states.append(self._looked_at(self._tried(lambda env=env, seed=seed: env.reset(seed=seed)[0])))
        return np.stack(self._states)

    def step(self, actions: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.bool_]]:
        """A step of all that are not over."""
        rows = np.clip(actions.reshape(len(self._running), -1), *self._bounds)
        rewards = np.zeros(len(rows))
        self._steps += 1
        for i, (env, action) in enumerate(zip(self._envs, rows, strict=False)):
            if not self._running[i]:
                continue
            wanted = action.astype(env.action_space.dtype)
            state, reward, ended, cut, _ = self._tried(lambda env=env, wanted=wanted: env.step(wanted))
            self._states[i], rewards[i] = self._looked_at(state), reward
            if not np.isfinite(rewards[i]):
                raise TaskError(f"env = {self._name!r}: a step paid {reward}: expected a finite number")
            if cut and not ended and self._steps < self._horizon:
                raise TaskError(
                    f"env = {self._name!r} cuts its episodes after {self._steps} steps, and the horizon is {self._horizon}: the true "
                    "return needs whole ones; make it with a larger max_episode_steps, or shorten the horizon"
                )
            self._running[i] = not (ended or cut)
        return np.stack(self._states), rewards, ~np.array(self._running)

    def _tried(self, call: Any) -> Any:
        try:
            return call()
        except Exception as problem:
            raise TaskError(f"env = {self._name!r} raised {type(problem).__name__}: {problem}") from problem

    def _looked_at(self, state: Any) -> NDArray[np.float32]:
        seen: NDArray[np.float32] = np.asarray(state, dtype=np.float32)
        if not np.isfinite(seen).all():
            raise TaskError(f"env = {self._name!r}: a state is {seen.tolist()}: expected finite numbers")
        return seen


def _make(name: str) -> Any:
    gymnasium = load("gymnasium", f"env = {name!r}, which is none of the built-in environments,")
    try:
        return gymnasium.make(name)
    except Exception as problem:
        raise TaskError(f"env = {name!r}: {problem}") from problem


def _is_plain(env: Any) -> bool:
    """Whether nothing is wrapped around it that changes what it is."""
    while env is not env.unwrapped:
        if type(env).__name__ not in _PLAIN:
            return False
        env = env.env
    return True


def _spaces(env: Any, name: str, seed: int) -> _hambo.Spaces:
    """Bounds of the actions, and states after resets."""
    for what, space in (("actions", env.action_space), ("observations", env.observation_space)):
        shape = getattr(space, "shape", None)
        if not (hasattr(space, "low") and hasattr(space, "high") and shape is not None and len(shape) == 1):
            raise TaskError(f"env = {name!r}: its {what} are {space}: expected a Box of one dimension")
    low, high = (np.ascontiguousarray(bound, dtype=np.float32) for bound in (env.action_space.low, env.action_space.high))
    try:
        first = env.reset(seed=seed % 2**31)[0]
        states = np.array([first] + [env.reset()[0] for _ in range(RESETS - 1)], dtype=np.float32)
    except Exception as problem:
        raise TaskError(f"env = {name!r} cannot be reset: {problem}") from problem
    return name, low, high, np.ascontiguousarray(states)
