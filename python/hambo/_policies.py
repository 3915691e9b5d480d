"""Policies as users hold them: names, files, agents of Stable-Baselines3 and d3rlpy, torch modules, functions."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _hambo
from ._called import Policy as Called
from ._called import name_of
from ._errors import PolicyError
from ._optional import load

Floats = NDArray[np.float32]


def prepare(policy: Any, folder: Path, index: int) -> tuple[str, _hambo.Handed]:
    """The name of a policy for the flags, and what is handed over in its place. `folder` takes files of the moment."""
    if isinstance(policy, (str, os.PathLike)):
        return os.fspath(policy), None
    bases = type(policy).__mro__
    if any(c.__name__ == "BaseAlgorithm" and c.__module__.startswith("stable_baselines3.") for c in bases):
        return _of_sb3(policy, folder / f"{index}")
    if any(c.__module__.startswith("torch.nn.modules") and c.__name__ == "Module" for c in bases):
        return _of_torch(policy, folder / f"{index}.safetensors")
    if any(c.__module__.split(".")[0] == "d3rlpy" for c in bases) and hasattr(policy, "predict"):
        return _function(type(policy).__name__, policy.predict)
    if isinstance(policy, type) or not callable(policy):
        raise PolicyError(
            f"policy: {policy!r} is no policy; expected a path, `builtin:NAME`, an agent of Stable-Baselines3 or d3rlpy, a "
            "torch.nn.Module, or a function from states [rows, state] to actions [rows, action]"
        )
    return _function(name_of(policy), policy)


def _function(name: str, function: Callable[[Any], Any]) -> tuple[str, _hambo.Handed]:
    return name, (name, Called(name, function))


def _of_sb3(agent: Any, place: Path) -> tuple[str, _hambo.Handed]:
    """Saved as its own library does, and read without it, with the normalizer that it was trained with."""
    name = f"{type(agent).__name__} (Stable-Baselines3)"
    place.mkdir()
    file, normalizer = place / "agent.zip", "none"
    try:
        agent.save(file)
        environment = agent.get_vec_normalize_env()
        if environment is not None:
            normalizer = str(place / "normalizer.pkl")
            environment.save(normalizer)
    except Exception as problem:
        raise PolicyError(f"policy {name}: cannot be saved: {problem}") from problem
    return name, (str(file), name, normalizer)


def _of_torch(module: Any, file: Path) -> tuple[str, _hambo.Handed]:
    """A plain MLP becomes a native network, anything else is called."""
    name = f"{type(module).__name__} (torch)"
    network = _plain_mlp(module)
    if network is not None:
        _write(file, *network)
        return name, (str(file), name, None)
    torch = load("torch", "a torch module")
    parameter = next(module.parameters(), None)
    device = "cpu" if parameter is None else parameter.device

    def act(states: Floats) -> Any:
        with torch.no_grad():
            return module(torch.from_numpy(states).to(device))

    return _function(name, act)


Layers = list[tuple[Floats, Floats]]


def _plain_mlp(module: Any) -> tuple[Layers, str, bool] | None:
    """Layers, activation, and whether tanh squashes the output, if that is all that the module is."""
    torch = load("torch", "a torch module")
    nn = torch.nn
    parts = _parts(module)
    if parts is None or not parts:
        return None
    squashed = type(parts[-1]) is nn.Tanh
    parts = parts[:-1] if squashed else parts
    linear, between = parts[0::2], parts[1::2]
    kinds = {type(part) for part in between}
    if len(parts) % 2 == 0 or len(kinds) > 1 or not kinds <= {nn.ReLU, nn.Tanh}:
        return None
    if not all(type(part) is nn.Linear for part in linear):
        return None
    activation = {nn.ReLU: "relu", nn.Tanh: "tanh"}[kinds.pop()] if kinds else "linear"

    def array(tensor: Any) -> Floats:
        return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float32)

    layers = [
        (array(part.weight), np.zeros(part.out_features, np.float32) if part.bias is None else array(part.bias))
        for part in linear
    ]
    # Hooks, parametrizations and the like: what is not the same function is called.
    probe = np.random.default_rng(0).standard_normal((16, linear[0].in_features)).astype(np.float32)
    with torch.no_grad():
        told = module(torch.from_numpy(probe).to(linear[0].weight.device, linear[0].weight.dtype))
    same = np.allclose(array(told), _forward(layers, activation, squashed, probe), rtol=1e-3, atol=1e-4)
    return (layers, activation, squashed) if same else None


def _parts(module: Any) -> list[Any] | None:
    """The layers of nested nn.Sequential, without those that do nothing."""
    nn = load("torch.nn", "a torch module")
    if type(module) is nn.Sequential:
        nested = [_parts(child) for child in module]
        return None if any(part is None for part in nested) else [part for parts in nested if parts for part in parts]
    nothing = type(module) is nn.Identity or (type(module) is nn.Dropout and not module.training)
    if nothing or (type(module) is nn.Flatten and module.start_dim == 1):
        return []
    return [module] if type(module) in (nn.Linear, nn.ReLU, nn.Tanh) else None


def _forward(layers: Layers, activation: str, squashed: bool, states: Floats) -> NDArray[np.float64]:
    x: NDArray[np.float64] = states.astype(np.float64)
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        if i + 1 < len(layers):
            x = np.maximum(x, 0) if activation == "relu" else np.tanh(x) if activation == "tanh" else x
    return np.tanh(x) if squashed else x


def _write(file: Path, layers: Layers, activation: str, squashed: bool) -> None:
    """A safetensors file of format `hambo-policy/1`."""
    metadata = {"format": "hambo-policy/1", "activation": activation, "squash": "tanh" if squashed else "none"}
    if squashed:
        actions = len(layers[-1][1])
        metadata |= {"action_low": json.dumps([-1.0] * actions), "action_high": json.dumps([1.0] * actions)}
    header: dict[str, Any] = {"__metadata__": metadata}
    body = b""
    for i, tensors in enumerate(layers):
        for name, tensor in zip(("weight", "bias"), tensors, strict=True):
            start = len(body)
            body += tensor.astype("<f4").tobytes()
            header[f"layers.{i}.{name}"] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [start, len(body)]}
    text = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(text)) + text + body)
