"""Steps per second of the environments against gymnasium's Python loop, and of SAC training against Stable-Baselines3.

    python -m venv V && V/bin/pip install -r bench/requirements-simulators.txt
    cargo build --release -p hambo-cli -p hambo-bench && scripts/get-mujoco
    V/bin/python bench/simulators.py            # both, on two cores

The two sides take turns, round by round, on the same cores. Rates are per second on the clock and, in brackets, per second
of CPU time, which is what one core does and what a busy machine disturbs less. A round of
the environments counts steps under random actions on one thread, and for hambo also on two; gymnasium's loop is the
one of its documentation, `env.step(env.action_space.sample())` and, where an episode ends, `env.reset()`. A round of training is SAC on Hopper-v4
with both libraries' networks of 2 × 256, batches of 256 and one update a step.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import measure

RELEASE = Path(__file__).resolve().parent.parent / "target/release"
ENVIRONMENTS = {"hopper": "Hopper-v4", "halfcheetah": "HalfCheetah-v4"}


class Watch:
    """Seconds on the clock, and of CPU time of this process or of its finished children."""

    def __init__(self, who=resource.RUSAGE_SELF):
        self.who, self.start = who, (0.0, 0.0)
        self.start = self.seconds()

    def seconds(self):
        used = resource.getrusage(self.who)
        return time.perf_counter() - self.start[0], used.ru_utime + used.ru_stime - self.start[1]

    def rates(self, steps):
        return [steps / seconds for seconds in self.seconds()]


def gymnasium_rates(name, seconds):
    import gymnasium

    env = gymnasium.make(ENVIRONMENTS[name])
    env.reset(seed=0)
    steps, watch = 0, Watch()
    while watch.seconds()[0] < seconds:
        for _ in range(100):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        steps += 100
    return watch.rates(steps)


def stable_baselines_rates(steps, threads):
    import gymnasium
    import stable_baselines3
    import torch

    torch.set_num_threads(threads)
    model = stable_baselines3.SAC(
        "MlpPolicy", gymnasium.make("Hopper-v4"), policy_kwargs={"net_arch": [256, 256]}, learning_starts=100, seed=0
    )
    model.learn(200)  # warms up
    watch = Watch()
    model.learn(steps, reset_num_timesteps=False)
    return watch.rates(steps)


def hambo_rates(name, seconds, threads):
    line = [RELEASE / "hambo-bench", "--work", name, "--seconds", str(seconds), "--threads", str(threads)]
    watch = Watch(resource.RUSAGE_CHILDREN)
    found = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)["steps_per_second"][0]
    return [found, watch.rates(found * seconds)[1]]


def hambo_training_rates(steps, threads):
    with TemporaryDirectory() as folder:
        line = f"train --env hopper --steps {steps} --learning-starts 100 --evaluation-episodes 2 --threads {threads}"
        watch = Watch(resource.RUSAGE_CHILDREN)
        subprocess.run([RELEASE / "hambo", *line.split(), "--out", folder], check=True, capture_output=True)
        return watch.rates(steps)


def peer(options, *arguments):
    """Rates of the other side, measured in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--peer", *map(str, arguments), "--threads", str(options.threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def table(sides, rounds):
    """Measures all sides in turn and prints the best and the median of each, as multiples of the last one."""
    rates = {name: [] for name in sides}
    for number in range(rounds):
        for name, side in sides.items():
            rates[name].append(side())
            print(f"round {number + 1}: {name} {rates[name][-1]}", file=sys.stderr)
    best = {name: [max(column) for column in zip(*found)] for name, found in rates.items()}
    median = {name: [statistics.median(column) for column in zip(*found)] for name, found in rates.items()}
    *_, last = sides
    for name in sides:
        cells = [f"{clock:.0f} ({cpu:.0f})" for clock, cpu in (best[name], median[name])]
        for of in (best, median):
            cells.append("{:.2f} ({:.2f})".format(*(ours / theirs for ours, theirs in zip(of[name], of[last]))))
        print(f"| {name} | {' | '.join(cells)} |")


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
        rates = stable_baselines_rates(int(amount), options.threads) if what == "sac" else gymnasium_rates(what, amount)
        print(json.dumps(rates))
        return
    print("| steps per second | best | median | ratio of the best | ratio of the medians |\n|---|---|---|---|---|")
    if "steps" in options.what:
        for name in ENVIRONMENTS:
            sides = {
                f"{name}, hambo, 2 threads": lambda n=name: hambo_rates(n, options.seconds, 2),
                f"{name}, hambo": lambda n=name: hambo_rates(n, options.seconds, 1),
                f"{name}, gymnasium": lambda n=name: peer(options, n, options.seconds),
            }
            table(sides, options.rounds)
    if "training" in options.what:
        sides = {
            "SAC on Hopper, hambo": lambda: hambo_training_rates(options.steps, options.threads),
            "SAC on Hopper, Stable-Baselines3": lambda: peer(options, "sac", options.steps),
        }
        table(sides, options.rounds)


if __name__ == "__main__":
    main()
