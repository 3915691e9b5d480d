"""How often bounds hold, and by how much: the suite of agents and data that nothing was tuned for.

    export HAMBO_ASSETS=…                                              # sb3/ and dope/, see trust_policies.py
    python3 docs/results/trust.py list                                 # all cases
    python3 docs/results/trust.py truth                                # true returns, simulated; on the CPU
    python3 docs/results/trust.py run --device cuda --jobs 6 --seconds 480 --kill 570 --out DIR
    python3 docs/results/trust.py table --runs DIR/runs.jsonl          # docs/results/trust/

`run` collects the data of each case on the spot, asks `hambo evaluate` with its default settings, and keeps one line per run in
DIR/runs.jsonl. What is there is not run again, so the same command goes on after an interruption. It starts nothing new after
`--seconds`. Needs Python alone, the binary, and libmujoco where the binary finds it (scripts/get-mujoco, or MUJOCO_LIB).
"""
import argparse
import concurrent.futures
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from trust_cases import ENVS, HORIZON, VARIANTS, cases, runs
from trust_policies import ROOT, path_of, policies
from trust_table import earlier_runs, write_table

RESULTS = ROOT / "docs/results/trust"
METHODS = "ca,da1,dainf,ds,ts1,tsinf"
# A return that any bound reaches: whether the gate passes then hangs on the evidence alone.
THRESHOLD = "-1e15"
EPISODES = {"pendulum": 100_000, "hopper": 1_000, "halfcheetah": 1_000}


def main():
    options = arguments()
    options.hambo = options.hambo.resolve()
    {"list": show, "truth": truth, "run": run, "table": table}[options.what](options)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hambo", type=Path, default=ROOT / "target/release/hambo", help="the binary")
    whats = parser.add_subparsers(dest="what", required=True)
    whats.add_parser("list", help="print all cases")
    simulate = whats.add_parser("truth", help="simulate the true returns into docs/results/trust/truth.json")
    simulate.add_argument("--threads", default="1")
    simulate.add_argument("--episodes", type=int, help="of each policy; those that have as many are left as they are [default: by environment]")
    simulate.add_argument("--only", default="", help="policies with this in their name, as halfcheetah-sb3")
    evaluate = whats.add_parser("run", help="evaluate, case by case")
    evaluate.add_argument("--device", default="auto")
    evaluate.add_argument("--threads", help="CPU threads of each process [default: the cores shared among the jobs]")
    evaluate.add_argument("--jobs", type=int, default=1, help="processes at a time")
    evaluate.add_argument("--seconds", type=float, default=math.inf, help="start no run after that time")
    evaluate.add_argument("--kill", type=float, default=math.inf, help="give up what still runs after that time, unrecorded")
    evaluate.add_argument("--out", type=Path, required=True, help="folder for runs.jsonl")
    evaluate.add_argument("--only", nargs="+", help="cases with one of these words in their name")
    evaluate.add_argument("--methods", default=METHODS)
    evaluate.add_argument("--da1", choices=["all", "compared"], default="all", help="where to run da1, which is slow")
    evaluate.add_argument("--more", default="", help="further options of `hambo evaluate`; for trying the script, they are recorded")
    evaluate.add_argument("--again", action="store_true", help="repeat runs that ended in an error")
    tabulate = whats.add_parser("table", help="write README.md and table.json")
    tabulate.add_argument("--runs", type=Path, nargs="+", default=[RESULTS / "runs.jsonl"])
    tabulate.add_argument("--earlier", type=Path, nargs="*", default=[], help="runs of builds before, for earlier.json; else that file is taken as it is")
    tabulate.add_argument("--truth", type=Path, default=RESULTS / "truth.json")
    tabulate.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def show(_):
    for case in cases():
        how = "sampled" if case.sampled else "noise"
        more = ", also with " + " and ".join(v for v in VARIANTS if v != "default") if case.compared else ""
        print(f"{case.name}: data of {' and '.join(case.behaviors)} ({how}){more}")
    print(f"{len(cases())} cases, {len(list(runs()))} runs", file=sys.stderr)


def truth(options):
    """The mean return of every evaluated policy, with its mean actions as `hambo evaluate` takes them."""
    path = RESULTS / "truth.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for env in ENVS:
        for name in policies(env):
            episodes = options.episodes or EPISODES[env]
            is_done = found.get(f"{env}-{name}", {}).get("episodes", 0) >= episodes
            if is_done or options.only not in f"{env}-{name}":
                continue
            start = time.time()
            policy = path_of(env, name, RESULTS / "policies.tmp")
            line = ["return", "--env", env, "--policy", policy, "--horizon", HORIZON, "--episodes", episodes]
            result = json.loads(hambo(options, [*line, "--seed", 1, "--json", "--threads", options.threads]).stdout)
            keep = ["value", "std_error", "std", "min", "max", "episodes", "diverged_episodes"]
            found[f"{env}-{name}"] = {key: result[key] for key in keep}
            write(path, json.dumps(found, indent=1, sort_keys=True) + "\n")
            print(f"{env} {name}: {result['value']:.2f} ± {result['std_error']:.2f}, {time.time() - start:.0f} s", flush=True)
    shutil.rmtree(RESULTS / "policies.tmp", ignore_errors=True)


class Book:
    """The lines of runs.jsonl, replaced as a whole with every new one."""

    def __init__(self, path, again):
        self.path, self.lock = path, threading.Lock()
        self.lines = path.read_text().splitlines() if path.exists() else []
        if again:
            self.lines = [line for line in self.lines if json.loads(line)["error"] is None]

    def done(self):
        return {(entry["case"]["name"], entry["variant"]) for entry in map(json.loads, self.lines)}

    def builds(self):
        return {entry["build"] for entry in map(json.loads, self.lines)}

    def add(self, entry):
        with self.lock:
            self.lines.append(json.dumps(entry))
            write(self.path, "".join(f"{line}\n" for line in self.lines))


def run(options):
    start = time.time()
    options.out.mkdir(parents=True, exist_ok=True)
    options.start, options.threads = start, options.threads or str(max(1, (os.cpu_count() or 1) // options.jobs))
    options.build = hashlib.sha256(options.hambo.read_bytes()).hexdigest()[:12]
    options.version = hambo(options, ["--version"]).stdout.strip()
    book = Book(options.out / "runs.jsonl", options.again)
    if book.builds() - {options.build}:
        sys.exit(f"{book.path} has runs of another build; take another --out")
    done, wanted = book.done(), {}
    for case, variant in runs():
        chosen = not options.only or any(word in case.name for word in options.only)
        if chosen and (case.name, variant) not in done:
            wanted.setdefault(case, []).append(variant)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda item: one_case(options, book, *item), wanted.items()))
    shutil.rmtree(options.out / "policies.tmp", ignore_errors=True)
    print(f"{len(book.lines)} of {len(list(runs()))} runs are in {book.path}", file=sys.stderr)


def one_case(options, book, case, variants):
    """Collects, evaluates with each variant, and leaves nothing but lines behind."""
    folder = options.out / f"{case.name}.tmp"
    for variant in variants:
        if time.time() - options.start > options.seconds:
            break
        entry = {"case": case.described(), "variant": variant, "version": options.version, "build": options.build}
        entry |= {"more": options.more, "device": options.device, "jobs": options.jobs, "error": None}
        start = time.time()
        try:
            entry |= evaluated(options, case, variant, folder)
        except subprocess.TimeoutExpired:
            break
        except subprocess.CalledProcessError as problem:
            entry["error"] = f"exit code {problem.returncode}: {problem.stderr.strip()[-500:]}"
        entry["wall"] = time.time() - start
        book.add(entry)
        print(f"{time.time() - options.start:.0f} s: {case.name} {variant}: {told(entry)}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)


def told(entry):
    if entry["error"]:
        return entry["error"]
    result = entry["result"]
    return f"bound {result.get('lower_bound')}, {result.get('evidence')}, {entry['wall']:.1f} s"


def evaluated(options, case, variant, folder):
    data = folder / "data.hdf5"
    policy = lambda name: path_of(case.env, name, options.out / "policies.tmp")
    threads = ["--threads", options.threads]
    if not data.exists():
        folder.mkdir(parents=True, exist_ok=True)
        line = ["collect", "--env", case.env, "--policy", *map(policy, case.behaviors), *case.collect()]
        hambo(options, [*line, "--out", data, "--device", "cpu", *threads])
    inspected = json.loads(hambo(options, ["inspect", data, "--json", *threads]).stdout)
    rewards = next(column for column in inspected["columns"] if column["name"] == "reward")
    line = ["evaluate", "--data", data, "--env", case.env, "--policy", policy(case.policy), "--horizon", HORIZON]
    line += ["--method", methods(options, case, variant), *VARIANTS[variant], "--threshold", THRESHOLD]
    line += ["--seed", case.seed, "--device", options.device, *threads, "--json", *options.more.split()]
    start = time.time()
    done = hambo(options, line, codes=(0, 1))
    return {
        "exit_code": done.returncode,
        "seconds": time.time() - start,
        "episodes": inspected["episodes"],
        "largest_reward": max(abs(rewards["min"]), abs(rewards["max"])),
        "result": trimmed(json.loads(done.stdout)),
    }


def methods(options, case, variant):
    if variant != "default":
        return "ca"
    skips = options.da1 == "compared" and not case.compared
    return ",".join(m for m in options.methods.split(",") if m != "da1" or not skips)


def trimmed(value):
    """A result without its long lists, which are for pictures."""
    if isinstance(value, dict):
        return {key: trimmed(v) for key, v in value.items()}
    if isinstance(value, list):
        return None if len(value) > 20 else [trimmed(v) for v in value]
    return value


def hambo(options, words, codes=(0,)):
    left = getattr(options, "kill", math.inf) - (time.time() - getattr(options, "start", time.time()))
    command = [str(word) for word in [options.hambo, *words]]
    limit = None if left == math.inf else max(left, 0.1)
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    if done.returncode not in codes:
        if options.what == "truth":
            sys.exit(f"{' '.join(command)}: {done.stderr}")
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    temporary.rename(path)


def table(options):
    read = lambda paths: [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    truth, kept = json.loads(options.truth.read_text()), options.out / "earlier.json"
    earlier = earlier_runs(read(options.earlier), truth) if options.earlier else json.loads(kept.read_text()) if kept.exists() else []
    for name, text in write_table(read(options.runs), truth, earlier).items():
        write(options.out / name, text)


if __name__ == "__main__":
    main()
