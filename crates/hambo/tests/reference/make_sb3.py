"""Actions of trained agents as Stable-Baselines3 itself gives them, for tests/policies.rs.

    python make_sb3.py ASSETS > sb3.json        # pip install stable-baselines3 sb3-contrib h5py

ASSETS holds sb3/<algorithm>/<env>/<env>.zip, with vecnormalize.pkl beside it where the agent needs one, and
d4rl/hopper_medium-v2.hdf5. Old files are loaded by today's library: what only their own version can unpickle, and
actions do not depend on, is replaced.

Also writes small agents of the kinds that ASSETS lacks into agents/ beside this script.
"""

import json
import pickle
import re
import sys
import zipfile
from pathlib import Path

import gymnasium
import h5py
import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import ARS, TQC, TRPO
from stable_baselines3 import A2C, DDPG, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

OBSERVATIONS = 64
CLASSES = {"a2c": A2C, "ars": ARS, "ddpg": DDPG, "ppo": PPO, "sac": SAC, "td3": TD3, "tqc": TQC, "trpo": TRPO}


def text_bounds(space):
    """The bounds as the description has them in words; the pickled ones need gym."""
    numbers = lambda text: np.array([float(x) for x in re.sub(r"[\[\]]", " ", text).split()], dtype=np.float32)
    return spaces.Box(numbers(space["low"]), numbers(space["high"]), dtype=np.float32)


def load(path, algorithm):
    with zipfile.ZipFile(path) as archive:
        data = json.loads(archive.read("data"))
    replaced = {
        "action_space": text_bounds(data["action_space"]),
        "observation_space": text_bounds(data["observation_space"]),
        "lr_schedule": lambda _: 0.0,
        "clip_range": lambda _: 0.2,
        "_last_obs": None,
        "_last_original_obs": None,
        "_last_episode_starts": None,
        "ep_info_buffer": None,
        "ep_success_buffer": None,
        "action_noise": None,
        "replay_buffer_class": None,
        "rollout_buffer_class": None,
        "policy_class": CLASSES[algorithm].policy_aliases[
            "LinearPolicy" if "ARSLinearPolicy" in data["policy_class"]["__init__"] else "MlpPolicy"
        ],
    }
    return CLASSES[algorithm].load(path, custom_objects=replaced, device="cpu")


class Stub:
    """Stands for classes of libraries that are not installed."""

    def __setstate__(self, state):
        self.__dict__.update(state if isinstance(state, dict) else {})


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module.startswith("gym.") or "random" in module:
            return type(name, (Stub,), {"__init__": lambda self, *a: None})
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def normalizer(path):
    if not path.exists():
        return (lambda observations: observations,)
    with open(path, "rb") as file:
        venv = Unpickler(file).load()
    return venv.normalize_obs, venv.obs_rms.mean, np.sqrt(venv.obs_rms.var)


def agent(path):
    algorithm = path.parts[-3]
    normalize, *moments = normalizer(path.parent / "vecnormalize.pkl")
    return predictions(load(path, algorithm), normalize, *moments)


def predictions(model, normalize, mean=0.0, std=1.0):
    width = model.observation_space.shape[0]
    rng = np.random.default_rng(7)
    noise = rng.normal(size=(5000, width)) * rng.choice([0.003, 0.03, 0.3, 3, 15], (5000, 1))
    observations = (mean + noise * std).astype(np.float32)
    actions = model.predict(normalize(observations), deterministic=True)[0]
    # Trained agents are at their limits almost everywhere: rather those observations where they are not.
    low, high = model.action_space.low, model.action_space.high
    inside = ((actions > low + 1e-3 * (high - low)) & (actions < high - 1e-3 * (high - low))).any(-1)
    chosen = np.concatenate([np.flatnonzero(inside)[: OBSERVATIONS - 16], np.arange(5000)])[:OBSERVATIONS]
    print(f"{model.__class__.__name__} {width}: {inside[chosen].mean():.2f} within the bounds", file=sys.stderr)
    return {"observations": observations[chosen], "actions": actions[chosen]}


class Uneven(gymnasium.Env):
    """Actions with bounds of different sizes."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Box(np.array([-1, 0.5], np.float32), np.array([3, 0.75], np.float32))

    def reset(self, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.array([1, 2, 3], np.float32) * self.np_random.normal(), 0.0, False, False, {}


def small(**more):
    return {"net_arch": [8, 8], **more}  # a new one for each: agents write into it


GSDE = {"use_sde": True}
SMALL = {
    "td3": lambda env: TD3("MlpPolicy", env, policy_kwargs=small(), buffer_size=10),
    "tqc": lambda env: TQC("MlpPolicy", env, policy_kwargs=small(), buffer_size=10),
    "sac": lambda env: SAC("MlpPolicy", env, policy_kwargs={"net_arch": [8], "activation_fn": torch.nn.Tanh}, buffer_size=10),
    "sac_gsde": lambda env: SAC("MlpPolicy", env, policy_kwargs=small(clip_mean=0.3), buffer_size=10, **GSDE),
    "ppo": lambda env: PPO("MlpPolicy", env, policy_kwargs=small(activation_fn=torch.nn.ReLU), n_steps=64),
    "ppo_squash": lambda env: PPO("MlpPolicy", env, policy_kwargs=small(squash_output=True), n_steps=64, **GSDE),
    "ars_linear": lambda env: ARS("LinearPolicy", env),
}


def small_agents(folder):
    for name, make in SMALL.items():
        env = VecNormalize(DummyVecEnv([Uneven]))
        env.reset()
        for _ in range(50):
            env.step(env.action_space.sample()[None])
        model = make(env)
        with torch.no_grad():  # far from 0, so that squashing and limits matter
            generator = torch.Generator().manual_seed(3)
            for parameter in model.policy.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        path = folder / name / "agent.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path, exclude=["ep_info_buffer", "rollout_buffer", "replay_buffer"])
        shrink(path)
        normalize = lambda observations: observations
        if name in ("td3", "ppo"):
            env.save(path.parent / "vecnormalize.pkl")
            normalize = env.normalize_obs
        yield f"agents/{name}/agent.zip", predictions(model, normalize)


def shrink(path):
    """Leaves out what actions do not depend on: optimizers and documentation."""
    with zipfile.ZipFile(path) as archive:
        data, policy = json.loads(archive.read("data")), archive.read("policy.pth")
    for part in data.values():
        if isinstance(part, dict):
            part.pop("__doc__", None)
            part.pop(":serialized:", None)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data", json.dumps(data, indent=4))
        archive.writestr("policy.pth", policy)


def d4rl(path):
    with h5py.File(path) as file:
        policy = {k: torch.as_tensor(v[()]) for k, v in leaves(file["metadata/policy"])}
        observations, logged = file["observations"][:OBSERVATIONS], file["actions"][:OBSERVATIONS]
        log_probs = file["infos/action_log_probs"][:OBSERVATIONS]
    x = torch.as_tensor(observations)
    for name in ("fc0", "fc1"):
        x = torch.relu(torch.nn.functional.linear(x, policy[name + "/weight"], policy[name + "/bias"]))
    mean, log_std = (
        torch.nn.functional.linear(x, policy[n + "/weight"], policy[n + "/bias"]) for n in ("last_fc", "last_fc_log_std")
    )
    # That this is the network which made the data is seen from its own log-probabilities.
    before = torch.atanh(torch.as_tensor(logged, dtype=torch.float64).clamp(-1 + 1e-7, 1 - 1e-7))
    normal = torch.distributions.Normal(mean.double(), log_std.double().clamp(-20, 2).exp())
    ours = (normal.log_prob(before) - torch.log(1 - torch.as_tensor(logged, dtype=torch.float64) ** 2 + 1e-6)).sum(-1)
    error = np.median(np.abs(ours.numpy() - log_probs.reshape(-1)))
    print(f"{path}: median error of log-probabilities {error:.2e}", file=sys.stderr)
    assert error < 1e-3
    return {"observations": observations, "actions": torch.tanh(mean).numpy()}


def leaves(group, prefix=""):
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            yield from leaves(item, f"{prefix}{name}/")
        elif item.shape:
            yield prefix + name, item


def rows(matrix):
    return [[float(f"{x:.9g}") for x in row] for row in np.asarray(matrix, dtype=np.float32)]


def main():
    assets = Path(sys.argv[1])
    cases = {str(p.relative_to(assets)): agent(p) for p in sorted(assets.glob("sb3/*/*/*.zip"))}
    path = assets / "d4rl" / "hopper_medium-v2.hdf5"
    cases[str(path.relative_to(assets))] = d4rl(path)
    cases.update(small_agents(Path(__file__).parent / "agents"))
    text = ",\n".join(
        f"{json.dumps(name)}: "
        + json.dumps({"observations": rows(c["observations"]), "actions": rows(c["actions"])})
        for name, c in cases.items()
    )
    print("{\n" + text + "\n}")


if __name__ == "__main__":
    main()
