#!/usr/bin/env python3
"""Clones the policy of logged episodes: fits a network to (observation, action), writes it as hambo-policy/1.

    pip install numpy torch safetensors
    python clone_policy.py policy.safetensors log1.npz log2.npz ...

Each NPZ file holds one episode with `observations` [T + 1, state] and `actions` [T, action].
"""

import json
import sys

import numpy as np
import torch
from safetensors.torch import save_file

out, *logs = sys.argv[1:]
episodes = [np.load(log) for log in logs]
x = np.concatenate([e["observations"][:-1] for e in episodes]).astype(np.float32)
y = np.concatenate([e["actions"] for e in episodes]).astype(np.float32)
mean, var = x.mean(0), x.var(0)
low, high = y.min(0), y.max(0)

torch.manual_seed(0)
x = torch.from_numpy((x - mean) / np.sqrt(var))
y = torch.from_numpy(y)
widths = [x.shape[1], 64, 64, y.shape[1]]
layers = [torch.nn.Linear(i, o) for i, o in zip(widths, widths[1:])]
network = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
steps = 5000
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
for _ in range(steps):
    rows = torch.randint(len(x), (256,))
    loss = ((network(x[rows]) - y[rows]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
with torch.no_grad():
    error = ((network(x) - y) ** 2).mean(0) / y.var(0)
print(f"{len(x)} steps; unexplained share of the actions' variance: {error.numpy()}")

tensors = {}
for i, layer in enumerate(layers):
    tensors[f"layers.{i}.weight"] = layer.weight.detach().contiguous()
    tensors[f"layers.{i}.bias"] = layer.bias.detach().contiguous()
save_file(tensors, out, metadata={
    "format": "hambo-policy/1",
    "activation": "tanh",
    "squash": "none",  # limited to the range of the logged actions
    "action_low": json.dumps(low.tolist()),
    "action_high": json.dumps(high.tolist()),
    "observation_mean": json.dumps(mean.tolist()),
    "observation_var": json.dumps(var.tolist()),
})
