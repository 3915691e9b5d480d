"""The policies that the suite evaluates and collects with: agents of other people, and checkpoints of this project.

DOPE's policies are pickles. Only numbers are taken from them: nothing that a pickle names is imported or called.
"""
import array
import json
import os
import pickle
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GYM = {"pendulum": "Pendulum-v1", "hopper": "Hopper-v3", "halfcheetah": "HalfCheetah-v3"}
# The largest action; the smallest is its negative.
LIMIT = {"pendulum": 2.0, "hopper": 1.0, "halfcheetah": 1.0}
SB3 = {"pendulum": ["a2c", "ars", "ddpg", "ppo", "sac", "trpo"], "hopper": ["a2c", "ars", "ppo", "trpo"]}
SB3["halfcheetah"] = SB3["hopper"]
DOPE = [0, 2, 4, 6, 8, 10]  # from bad to best
OWN = {
    "pendulum": ["good", "mediocre"],
    "hopper": ["good", "mediocre-1", "mediocre-3"],
    "halfcheetah": ["good", "mediocre"],
}
# These have no distribution to sample from.
DETERMINISTIC = {"ars", "ddpg"}


def policies(env):
    """Names of all policies of an environment, as `sb3-ppo`, `dope-4` and `own-good`."""
    dope = [] if env == "pendulum" else [f"dope-{k}" for k in DOPE]
    return [f"sb3-{a}" for a in SB3[env]] + dope + [f"own-{name}" for name in OWN[env]]


def family(name):
    return name.partition("-")[0]


def is_stochastic(name):
    kind, _, rest = name.partition("-")
    return kind == "dope" or (kind == "sb3" and rest not in DETERMINISTIC)


def path_of(env, name, folder):
    """The file for `--policy`; those of DOPE are converted into `folder`."""
    kind, _, rest = name.partition("-")
    if kind == "own":
        return ROOT / "checkpoints" / env / f"{rest}.safetensors"
    if "HAMBO_ASSETS" not in os.environ:
        sys.exit("HAMBO_ASSETS must name the folder with the agents of other people (sb3/ and dope/)")
    assets = Path(os.environ["HAMBO_ASSETS"]).resolve()
    if kind == "sb3":
        return assets / "sb3" / rest / GYM[env] / f"{GYM[env]}.zip"
    target = Path(folder).resolve() / f"{env}-{name}.safetensors"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(safetensors(assets / "dope" / env / f"{rest}.pkl"))
        temporary.rename(target)
    return target


class Dtype:
    def __init__(self, code, *_):
        self.code = code

    def __setstate__(self, state):
        self.big = state[1] == ">"


class Array:
    """What a pickled numpy array consists of."""

    def __init__(self, *_):
        self.shape, self.values = (), []

    def __setstate__(self, state):
        _, self.shape, dtype, is_fortran, data = state
        if dtype.code not in ("f4", "f8") or dtype.big or (is_fortran and len(self.shape) > 1):
            raise pickle.UnpicklingError(f"an array of {dtype.code} in an order that is not expected")
        self.values = array.array("f" if dtype.code == "f4" else "d", data)


class Arrays(pickle.Unpickler):
    """Reads plain data and arrays of floats."""

    KNOWN = {"_reconstruct": lambda *_: Array(), "ndarray": Array, "dtype": Dtype}

    def find_class(self, module, name):
        if module.split(".")[0] == "numpy" and name in self.KNOWN:
            return self.KNOWN[name]
        if (module, name) == ("_codecs", "encode"):
            return lambda text, _: text.encode("latin1")
        raise pickle.UnpicklingError(f"{module}.{name} is not expected in a policy")


def safetensors(path):
    """A policy of DOPE (keys as in D4RL's `metadata/policy`) in the format `hambo-policy/1`."""
    with open(path, "rb") as file:
        found = Arrays(file).load()
    if (found["nonlinearity"], found["output_distribution"]) != ("relu", "tanh_gaussian"):
        sys.exit(f"{path}: expected relu and tanh_gaussian")
    names = {"layers.0": "fc0", "layers.1": "fc1", "layers.2": "last_fc", "log_std": "last_fc_log_std"}
    header, data = {}, b""
    for target, source in names.items():
        for part in ("weight", "bias"):
            tensor = found[f"{source}/{part}"]
            values = array.array("f", tensor.values).tobytes()
            span = [len(data), len(data) + len(values)]
            header[f"{target}.{part}"] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": span}
            data += values
    actions = len(found["last_fc/bias"].values)
    bounds = {"action_low": str([-1.0] * actions), "action_high": str([1.0] * actions)}
    header["__metadata__"] = {"format": "hambo-policy/1", "activation": "relu", "squash": "tanh", **bounds}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data
