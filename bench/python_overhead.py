"""What the Python package adds to the command: `python bench/python_overhead.py [--repeats N] [--transitions N] [--cases A,B]`.

Run in an environment with the package, torch and h5py. Every measurement is a process of its own; the cases take turns, so that a
machine that others use as well slows all of them alike. Times are seconds of processor time (user and system) and of the clock; the
ratios are those of the smallest. `command` is the `hambo` that comes with the package, which is the same native code.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {"horizon": 200, "seed": 1, "device": "cpu"}
NETWORK = """
import numpy as np, torch
torch.manual_seed(0)
torch.set_num_threads(1)
network = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
with torch.no_grad():
    network[4].weight *= 5
layers = [(network[i].weight.detach().numpy(), network[i].bias.detach().numpy()) for i in (0, 2, 4)]
def called(states):
    for i, (weight, bias) in enumerate(layers):
        states = states @ weight.T + bias
        states = np.tanh(states) if i < 2 else states
    return states
"""
PREPARE = f"""
import sys, numpy as np
{NETWORK}
from pathlib import Path
from hambo._policies import _plain_mlp, _write
_write(Path("policy.safetensors"), *_plain_mlp(network))
import h5py
with h5py.File("pend.hdf5") as file:
    np.savez("pend.npz", **{{name: file[name][:] for name in file}})
"""
EVALUATE = """
import json, sys, numpy as np, hambo
settings = json.loads(sys.argv[1])
arrays = dict(np.load("pend.npz"))
result = hambo.evaluate(arrays, POLICY, env="pendulum", **settings)
print(json.dumps([result.lower_bound, result.to_dict()["seconds"]]))
"""
CASES = {
    "command": None,
    "arrays": ('"policy.safetensors"', ""),
    "torch": ("network", NETWORK),
    "callable": ("called", NETWORK),
}


def words(case: str, settings: dict[str, object]) -> list[str]:
    """The command of a case."""
    if case == "command":
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if not isinstance(value, dict)]
        for name, value in settings.items():
            if isinstance(value, dict):
                Path(f"{name}.json").write_text(json.dumps(value))
                flags.append(f"--{name.replace('_', '-')}={name}.json")
        hambo = Path(sys.executable).with_name("hambo")
        # The package always looks at where the bound comes from; the command does so with --out.
        return [str(hambo), "evaluate", "--data=pend.npz", "--policy=policy.safetensors", "--env=pendulum", *flags, "--out=run", "--force", "--json"]
    policy, before = CASES[case]
    return [sys.executable, "-c", before + EVALUATE.replace("POLICY", policy), json.dumps(settings)]


def measure(command: list[str]) -> tuple[float, float, str]:
    """Seconds of processor time and of the clock, and what was printed."""
    before, start = os.times(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after, clock = os.times(), time.monotonic() - start
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used, clock, done.stdout.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--transitions", type=int, default=10_000)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--settings", type=json.loads, default={}, help="more settings, as JSON")
    arguments = parser.parse_args()
    settings, cases = {**SETTINGS, **arguments.settings}, arguments.cases.split(",")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        collect = f"collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 --steps {arguments.transitions} --seed 1 --out pend.hdf5"
        subprocess.run([Path(sys.executable).with_name("hambo"), *collect.split()], check=True, capture_output=True)
        subprocess.run([sys.executable, "-c", PREPARE], check=True)
        found: dict[str, list[tuple[float, float]]] = {case: [] for case in cases}
        for _ in range(arguments.repeats):
            for case in cases:
                used, clock, told = measure(words(case, settings))
                found[case].append((used, clock))
                answer = json.loads(told)
                bound = answer[0] if isinstance(answer, list) else answer["lower_bound"]
                print(f"{case:10} {used:7.1f} s of processor time, {clock:7.1f} s by the clock, bound {bound}, load {os.getloadavg()[0]:.1f}", flush=True)
        least = {case: [min(times) for times in zip(*all_times, strict=True)] for case, all_times in found.items()}
        first = least[cases[0]]
        for case, (used, clock) in least.items():
            print(f"{case:10} least {used:7.1f} s, {clock:7.1f} s: {used / first[0]:.3f} and {clock / first[1]:.3f} times {cases[0]}")


if __name__ == "__main__":
    main()
