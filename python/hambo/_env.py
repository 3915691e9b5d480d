"""Environments: those that are built in, and what gymnasium says of others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

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


def resolve(env: Any, seed: int) -> tuple[str | None, _hambo.Spaces | None]:
    """The name of a built-in environment, or what is known of another one."""
    if env is None:
        return None, None
    if isinstance(env, str):
        if env in _BUILT_IN:
            return _BUILT_IN[env], None
        # Ids of gymnasium have capitals; `hopper-v5` is built in.
        if re.fullmatch(r"([\w-]+/)?[A-Z][\w.-]*-v\d+", env):
            made = _make(env)
            try:
                return None, _spaces(made, env, seed)
            finally:
                made.close()
        return env, None
    if not all(hasattr(env, name) for name in ("action_space", "observation_space", "reset")):
        raise TaskError(f"env = {env!r}: expected a name, a gymnasium id, or a gymnasium environment")
    if hasattr(env, "num_envs"):
        raise TaskError("env is a vector of environments: give one of them")
    spec = getattr(env, "spec", None)
    name = getattr(spec, "id", None)
    changed = {key for key in getattr(spec, "kwargs", None) or {} if key != "render_mode"}
    if name in _BUILT_IN and not changed and _is_plain(env):
        return _BUILT_IN[name], None
    return None, _spaces(env, name or type(env).__name__, seed)


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
