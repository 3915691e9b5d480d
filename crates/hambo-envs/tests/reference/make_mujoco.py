"""Writes what gymnasium's Hopper and HalfCheetah do, for the tests of crates/hambo-envs/src/mujoco, one file a version:

    pip install gymnasium==1.4.0 mujoco==3.17.0 imageio && python make_mujoco.py FOLDER

A file is an int64 header [positions, velocities, controls, observation, steps] and rows of float64: first (1 where an
episode starts, else 0), positions, velocities (before the step), action, then what the step gave: positions, velocities,
observation, reward, terminated. Ten episodes of 1000 random actions, every second time beyond the bounds; then the
episodes of mujoco_tapes.npz, along which agents of Stable-Baselines3 ran and hopped. Episodes do not stop where they
terminate. RESETS.json has moments of 20,000 initial states.

It is made anew on every machine: the last bits of sines differ between processors, within the same library.
"""

import json
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np

RESETS = 20_000


def rows_of(env, actions, seed, state=None):
    """One episode; from a random state, or from `state`."""
    env.reset(seed=seed)
    if state is not None:
        env.set_state(*state)
    data = env.data
    for t, action in enumerate(actions):
        before = [[float(t == 0)], data.qpos.copy(), data.qvel.copy()]
        observation, reward, terminated, *_ = env.step(action)
        after = [data.qpos, data.qvel, observation, [reward, float(terminated)]]
        yield np.concatenate([*before, action, *after])


def main(folder):
    os.chdir(folder)  # where MuJoCo writes a MUJOCO_LOG.TXT: an attribute in gymnasium's model is out of date
    folder = Path()
    tapes = np.load(Path(__file__).with_name("mujoco_tapes.npz"))
    moments = {}
    for name in ("Hopper", "HalfCheetah"):
        for version in ("v4", "v5"):
            env = gymnasium.make(f"{name}-{version}").unwrapped
            rng = np.random.default_rng(7)
            size = env.model.nu
            rows = []
            for episode in range(10):
                scale = 1.3 if episode % 2 else 0.7
                actions = (scale * rng.uniform(-1, 1, (1000, size))).astype(np.float32)
                rows += rows_of(env, actions, episode)
            for tape in sorted(tapes.files):
                if tape.startswith(f"{name}-") and tape.endswith("-actions"):
                    state = tapes[tape.replace("-actions", "-state")]
                    rows += rows_of(env, tapes[tape], 0, (state[: env.model.nq], state[env.model.nq :]))
            header = [env.model.nq, env.model.nv, size, env.observation_space.shape[0], len(rows)]
            with open(folder / f"{name}-{version}.bin", "wb") as file:
                file.write(np.array(header, dtype="<i8").tobytes())
                file.write(np.array(rows, dtype="<f8").tobytes())
        states = np.empty((RESETS, env.model.nq + env.model.nv))
        for i in range(RESETS):
            env.reset(seed=i)
            states[i] = np.concatenate([env.data.qpos, env.data.qvel])
        fourth = ((states - states.mean(0)) ** 4).mean(0)
        moments[name] = {"mean": states.mean(0).tolist(), "std": states.std(0).tolist(), "fourth": fourth.tolist()}
    (folder / "RESETS.json").write_text(json.dumps(moments))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
