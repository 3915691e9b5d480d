"""What the Python peers share: the command line, the stopwatch and the JSON line.

A workload has `step()`, which may return before its work is done, `wait()`, which does not, and `check()`.
"""

import argparse
import json
import os
import time

WARM_UP_SECONDS = 0.5
WINDOW_SECONDS = 0.4
STEPS_PER_WAIT = 10


def parser(description):
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--work", required=True, choices=["w1", "w2", "w3"])
    options.add_argument("--seconds", type=float, default=2.0, help="how long to measure")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--data", required=True, help="directory that bench/inputs.py wrote")
    options.add_argument("--check", action="store_true", help="also print the numbers all peers must agree on")
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options.add_argument("--tf32", action="store_true", help="time in TF32 on a GPU (checks stay in float32)")
    return options


def keep_to_cores(count):
    """Confines this process to `count` cores, where the system can; libraries size their thread pools by it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def steps_per_second(workload, seconds):
    """The rate of each window; a window ends at the first wait after its time is up."""
    rate(workload, WARM_UP_SECONDS)
    windows = max(1, round(seconds / WINDOW_SECONDS))
    return [rate(workload, seconds / windows) for _ in range(windows)]


def rate(workload, seconds):
    steps, start, elapsed = 0, time.perf_counter(), 0.0
    while elapsed < seconds:
        for _ in range(STEPS_PER_WAIT):
            workload.step()
        workload.wait()
        steps += STEPS_PER_WAIT
        elapsed = time.perf_counter() - start
    return steps / elapsed


def print_line(peer, version, work, rates, check):
    line = {"peer": peer, "version": version, "work": work, "steps_per_second": rates}
    if check is not None:
        line["check"] = check
    print(json.dumps(line), flush=True)
