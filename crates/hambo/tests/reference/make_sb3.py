"""Actions of trained agents as Stable-Baselines3 itself gives them, for tests/policies.rs.

    python make_sb3.py ASSETS > sb3.json        # pip install stable-baselines3 sb3-contrib h5py

ASSETS holds sb3/<algorithm>/<env>/<env>.zip, with vecnormalize.pkl beside it where the agent needs one, and
d4rl/hopper_medium-v2.hdf5. Old files are loaded by today's library: classes that moved from gym to gymnasium are
replaced, and where the library refuses the file altogether, its networks are run in plain PyTorch.
"""

import importlib
import io
import json
import pickle
import re
import sys
import types
import zipfile
from pathlib import Path

import h5py
import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import ARS, TQC, TRPO
from stable_baselines3 import A2C, DDPG, PPO, SAC, TD3

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


def plain(path, algorithm):
    """What predict(deterministic=True) does, for files the library refuses."""
    with zipfile.ZipFile(path) as archive:
        data = json.loads(archive.read("data"))
        tensors = torch.load(io.BytesIO(archive.read("policy.pth")), map_location="cpu", weights_only=False)
    box = text_bounds(data["action_space"])
    linear = lambda name, x: torch.nn.functional.linear(x, tensors[name + ".weight"], tensors.get(name + ".bias"))

    def act(observations):
        x = torch.as_tensor(observations)
        if algorithm == "sac":
            for i in (0, 2):
                x = torch.relu(linear(f"actor.latent_pi.{i}", x))
            gsde = "actor.mu.0.weight" in tensors
            x = linear("actor.mu.0", x).clamp(-2, 2) if gsde else linear("actor.mu", x)
            squashed = torch.tanh(x)
        elif algorithm == "ars":  # linear, without bias
            return np.clip(linear("action_net", x).numpy(), box.low, box.high)
        else:
            raise NotImplementedError(algorithm)
        return (box.low + 0.5 * (squashed.numpy() + 1.0) * (box.high - box.low)).astype(np.float32)

    return box, act


class Stub:
    """Stands for classes of libraries that are not installed."""

    def __setstate__(self, state):
        self.__dict__.update(state if isinstance(state, dict) else {})


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if module.startswith("gym.") or "random" in module:
            return type(name, (Stub,), {"__init__": lambda self, *a: None})
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def normaliser(path):
    if not path.exists():
        return lambda observations: observations
    with open(path, "rb") as file:
        venv = Unpickler(file).load()
    return venv.normalize_obs


def agent(path):
    algorithm = path.parts[-3]
    normalize = normaliser(path.parent / "vecnormalize.pkl")
    try:
        model = load(path, algorithm)
        act, source = lambda obs: model.predict(obs, deterministic=True)[0], "stable-baselines3"
        width = model.observation_space.shape[0]
    except Exception as error:
        print(f"{path}: {type(error).__name__}: {error}", file=sys.stderr)
        box, act = plain(path, algorithm)
        source = "torch"
        with zipfile.ZipFile(path) as archive:
            width = json.loads(archive.read("data"))["observation_space"]["shape"][0]
    # Beyond what the agents have seen, too, so that every limit is met.
    rng = np.random.default_rng(7)
    observations = (rng.normal(size=(OBSERVATIONS, width)) * rng.choice([0.3, 1, 5], (OBSERVATIONS, 1))).astype(np.float32)
    if "Hopper" in path.name:
        observations[:, 0] += 1.25
    actions = np.asarray(act(normalize(observations)), dtype=np.float32)
    return {"source": source, "observations": observations, "actions": actions}


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
    return {"source": "torch", "observations": observations, "actions": torch.tanh(mean).numpy()}


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
    text = ",\n".join(
        f"{json.dumps(name)}: "
        + json.dumps({"source": c["source"], "observations": rows(c["observations"]), "actions": rows(c["actions"])})
        for name, c in cases.items()
    )
    print("{\n" + text + "\n}")


if __name__ == "__main__":
    main()
