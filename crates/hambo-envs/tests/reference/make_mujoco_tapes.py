"""Writes mujoco_tapes.npz: what agents of Stable-Baselines3 did in an episode of gymnasium's Hopper and HalfCheetah.

    pip install gymnasium==1.4.0 mujoco==3.17.0 imageio stable-baselines3 sb3-contrib h5py
    python make_mujoco_tapes.py RL_TRAINED_AGENTS      # the folder sb3/ of agents as DLR-RM/rl-trained-agents has them

`ENV-ALGO-state` is the initial (qpos, qvel), `ENV-ALGO-actions` the float32 actions of up to 1000 steps.
"""

import sys
from pathlib import Path

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "hambo/tests/reference"))
from make_sb3 import load, normalizer  # noqa: E402

tapes = {}
for name in ("Hopper", "HalfCheetah"):
    for algorithm in ("ppo", "ars", "trpo"):
        folder = Path(sys.argv[1]) / algorithm / f"{name}-v3"
        env = gymnasium.make(f"{name}-v4").unwrapped
        model = load(folder / f"{name}-v3.zip", algorithm)
        normalize, *_ = normalizer(folder / "vecnormalize.pkl")
        observation, _ = env.reset(seed=0)
        tapes[f"{name}-{algorithm}-state"] = np.concatenate([env.data.qpos, env.data.qvel])
        actions, total = [], 0.0
        for _ in range(1000):
            action, _ = model.predict(normalize(observation), deterministic=True)
            actions.append(action.astype(np.float32))
            observation, reward, terminated, *_ = env.step(actions[-1])
            total += reward
            if terminated:
                break
        tapes[f"{name}-{algorithm}-actions"] = np.array(actions)
        print(name, algorithm, len(actions), total, file=sys.stderr)
np.savez_compressed(Path(__file__).with_name("mujoco_tapes.npz"), **tapes)
