"""Memory that logged data in numpy arrays need beside them: `python bench/python_memory.py [ROWS]` (Linux).

Makes 10⁷ transitions of 17 + 6 float32 numbers (states, actions, rewards, next states), evaluates a policy on them with a small
model, and prints the largest memory of the process in multiples of the arrays' size, after the data were read and in all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import hambo
from hambo import _data


def status(name: str) -> float:
    """A figure of the process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    rng = np.random.default_rng(0)
    states = rng.standard_normal((rows, 17), dtype=np.float32)
    actions = rng.uniform(-1, 1, (rows, 6)).astype(np.float32)
    actions = np.ascontiguousarray(actions)
    next_states = states + 0.1 * rng.standard_normal((rows, 17), dtype=np.float32)
    rewards = np.ascontiguousarray(states[:, 0])
    timeouts = np.arange(rows) % 1000 == 999
    arrays = hambo.Transitions(states, actions, rewards, next_states, timeouts=timeouts)
    size = states.nbytes + actions.nbytes + next_states.nbytes + rewards.nbytes
    forget_peak()
    before = status("VmRSS")
    print(f"arrays: {size / 1e9:.2f} GB, process: {before / 1e9:.2f} GB")

    _data.read(arrays, ([], None, 0))
    print(f"read: {(status('VmHWM') - before) / size:.2f} times their size beside them")
    forget_peak()
    before = status("VmRSS")

    def policy(batch: np.ndarray) -> np.ndarray:
        return -0.1 * batch[:, :6]

    last = [""]

    def told(stage: str, done: int, total: int, note: str) -> None:
        if stage != last[0]:
            last[0] = stage
            print(f"  {stage}: so far {(status('VmHWM') - before) / size:.2f}", flush=True)

    model = {"hidden": [32], "steps": 100, "folds": 1, "particles": 2}
    hambo.evaluate(
        arrays, policy, horizon=20, reward="-s[0]^2", methods=["ds"], rollouts=100, model_config=model, device="cpu", progress=told
    )
    print(f"evaluated: {(status('VmHWM') - before) / size:.2f} times their size beside them")


if __name__ == "__main__":
    main()
