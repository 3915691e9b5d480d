"""Steps per second of the environments against gymnasium's Python loop, and of SAC training against Stable-Baselines3.

    python -m venv V && V/bin/pip install -r bench/requirements-simulators.txt
    cargo build --release -p hambo-cli -p hambo-bench && scripts/get-mujoco
    V/bin/python bench/simulators.py            # both, on two cores

The two sides take turns, round by round, on the same cores; a busy machine slows both, so trust the ratios. A round of
the environments counts steps under random actions on one thread, and for hambo also on two; gymnasium's loop is
`env.step` and, where an episode ends, `env.reset`, with the actions drawn before. A round of training is SAC on Hopper-v4
with both libraries' networks of 2 × 256, batches of 256 and one update a step.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import measure

RELEASE = Path(__file__).resolve().parent.parent / "target/release"
ENVIRONMENTS = {"hopper": "Hopper-v4", "halfcheetah": "HalfCheetah-v4"}


def gymnasium_rate(name, seconds):
    import gymnasium
    import numpy as np

    env = gymnasium.make(ENVIRONMENTS[name])
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (1000, *env.action_space.shape)).astype(np.float32)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        steps += len(actions)
    return steps / (time.perf_counter() - start)


def stable_baselines_rate(steps, threads):
    import gymnasium
    import stable_baselines3
    import torch

    torch.set_num_threads(threads)
    model = stable_baselines3.SAC(
        "MlpPolicy", gymnasium.make("Hopper-v4"), policy_kwargs={"net_arch": [256, 256]}, learning_starts=100, seed=0
    )
    model.learn(200)  # warms up
    start = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    return steps / (time.perf_counter() - start)


def hambo_rate(name, seconds, threads):
    line = [RELEASE / "hambo-bench", "--work", name, "--seconds", str(seconds), "--threads", str(threads)]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)["steps_per_second"][0]


def hambo_training_rate(steps, threads):
    with TemporaryDirectory() as folder:
        line = f"train --env hopper --steps {steps} --learning-starts 100 --evaluation-episodes 2 --threads {threads} --json"
        command = [RELEASE / "hambo", *line.split(), "--out", folder]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["steps_per_second"]


def peer(options, *arguments):
    """A rate of the other side, measured in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--peer", *map(str, arguments), "--threads", str(options.threads)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def table(sides, rounds):
    """Measures all sides in turn and prints the best and the median of each, as multiples of the last one."""
    rates = {name: [] for name in sides}
    for number in range(rounds):
        for name, side in sides.items():
            rates[name].append(side())
            print(f"round {number + 1}: {name} {rates[name][-1]:.0f}", file=sys.stderr)
    *_, last = rates.values()
    for name, found in rates.items():
        best, median = max(found), statistics.median(found)
        ratios = f"{best / max(last):.2f}, {median / statistics.median(last):.2f}"
        print(f"| {name} | {best:.0f} | {median:.0f} | {ratios} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="steps,training", help="steps, training, or both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a round of the environments")
    parser.add_argument("--steps", type=int, default=2000, help="of a round of training")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    measure.keep_to_cores(options.threads)
    if options.peer:
        what, amount = options.peer[0], float(options.peer[-1])
        print(stable_baselines_rate(int(amount), options.threads) if what == "sac" else gymnasium_rate(what, amount))
        return
    print("| steps per second | best | median | ratios |\n|---|---|---|---|")
    if "steps" in options.what:
        for name in ENVIRONMENTS:
            sides = {
                f"{name}, hambo, 2 threads": lambda n=name: hambo_rate(n, options.seconds, 2),
                f"{name}, hambo": lambda n=name: hambo_rate(n, options.seconds, 1),
                f"{name}, gymnasium": lambda n=name: peer(options, n, options.seconds),
            }
            table(sides, options.rounds)
    if "training" in options.what:
        sides = {
            "SAC on Hopper, hambo": lambda: hambo_training_rate(options.steps, options.threads),
            "SAC on Hopper, Stable-Baselines3": lambda: peer(options, "sac", options.steps),
        }
        table(sides, options.rounds)


if __name__ == "__main__":
    main()
