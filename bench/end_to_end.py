#!/usr/bin/env python3
"""A whole evaluation on Pendulum by hambo and by PyTorch, in turns: seconds of every stage, and their ratio.

    bench/end_to_end.py                                                   # CA on two cores: fit, calibrate, 12 rounds, rollouts
    bench/end_to_end.py --device cuda --graph --tf32 --steps 20000 --methods ca,da1

Needs `cargo build --release` and a Python with PyTorch and h5py: `bench/.venv`, or the one that HAMBO_BENCH_PYTHON names.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import report

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
COLLECT = "collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 --seed 1"
LABELS = {"hambo": "hambo", "torch": "PyTorch"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transitions", type=int, default=10_000)
    parser.add_argument("--methods", default="ca", help="ca, da1 or ca,da1")
    parser.add_argument("--steps", type=int, default=8000, help="training steps of the model (8000)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of each adversary (12)")
    parser.add_argument("--turns", type=int, default=1, help="times that both take turns (1)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--graph", action="store_true", help="PyTorch replays CUDA graphs")
    parser.add_argument("--tf32", action="store_true", help="PyTorch computes in TF32 on a GPU")
    parser.add_argument("--skip", choices=["hambo", "torch"], help="leave one out")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write every measurement there")
    options = parser.parse_args()

    data = BENCH / "data" / f"pendulum-{options.transitions}.hdf5"
    data.parent.mkdir(exist_ok=True)
    if not data.exists():
        execute([RELEASE / "hambo", *COLLECT.split(), "--steps", options.transitions, "--out", data])
    commands = peer_commands(options, data)
    lines = []
    for turn in range(options.turns):
        for peer in sorted(commands, reverse=turn % 2 == 1):
            start = time.perf_counter()
            line = json.loads(execute(commands[peer]))
            line["wall"] = time.perf_counter() - start  # with starting and ending the process
            lines.append(line)
            print(f"{peer}: {line['wall']:.1f} s, values {line['values']}", file=sys.stderr)
    print(table(lines))
    if options.out:
        options.out.write_text(json.dumps(lines, indent=1) + "\n")


def peer_commands(options, data):
    common = ["--methods", options.methods, "--steps", options.steps, "--rounds", options.rounds]
    common += ["--threads", options.threads, "--device", options.device]
    python = os.environ.get("HAMBO_BENCH_PYTHON", BENCH / ".venv" / "bin" / "python")
    flags = [flag for flag in ("--graph", "--tf32") if getattr(options, flag[2:])]
    commands = {
        "hambo": [RELEASE / "hambo-bench", "--work", "end-to-end", "--read", data, *common],
        "torch": [python, BENCH / "peer_end_to_end.py", "--data", data, *common, *flags],
    }
    return {peer: command for peer, command in commands.items() if peer != options.skip}


def execute(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}")
    return done.stdout


def table(lines):
    """The fastest turn of each, stage by stage."""
    found = {}
    for line in lines:
        peer = line["peer"].split("-")[0]
        for stage, seconds in [*line["stages"].items(), ("all, with start and end", line["wall"])]:
            best = found.setdefault(stage, {})
            best[peer] = min(seconds, best.get(peer, seconds))
    last = "all, with start and end"
    stages = [stage for stage in found if stage != last] + [last]
    show = lambda value: "–" if value is None else f"{value:.2f}"
    rows = []
    for stage in stages:
        hambo, torch = found[stage].get("hambo"), found[stage].get("torch")
        rows.append([stage, "", show(hambo), show(torch), show(torch / hambo if hambo and torch else None)])
    return report.markdown(["stage", "", "hambo, s", "PyTorch, s", "PyTorch / hambo"], rows)


if __name__ == "__main__":
    main()
