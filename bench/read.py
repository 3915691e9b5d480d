"""Seconds to read a D4RL file of a million transitions of 17 + 6 numbers, by hambo and by h5py, in turns.

    python bench/read.py [--rows 1000000] [--rounds 5] [--hambo target/release/hambo-bench]      # pip install h5py

Files are made in bench/data: contiguous, in chunks, and compressed by gzip as D4RL's own are; with next observations and
without. h5py reads the arrays that hambo reads and makes them float32; hambo also pairs the rows within episodes, checks
every value for NaN, and every length against the file. Each reading is in a process of its own, with the file in memory.

Seconds are on the clock, from the call to the arrays: what a user waits. h5py has one thread, hambo one per core. On a busy
machine trust the processor time, which adds up that of all threads (of hambo also that of starting and ending the process).
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np

DATA = Path(__file__).resolve().parent / "data"
KINDS = {"contiguous": {}, "chunked": {"chunks": True}, "gzip": {"compression": "gzip"}}
FIELDS = ["observations", "actions", "rewards", "terminals", "timeouts", "next_observations"]


def make(path, rows, options, with_next):
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=(rows + 1, 17)).astype(np.float32) * 0.1, axis=0, dtype=np.float32)
    with h5py.File(path, "w") as file:
        put = lambda name, values: file.create_dataset(name, data=values, **options)
        put("observations", states[:-1])
        put("actions", np.tanh(rng.normal(size=(rows, 6))).astype(np.float32))
        put("rewards", rng.normal(size=rows).astype(np.float32))
        put("terminals", np.zeros(rows, bool))
        put("timeouts", np.arange(1, rows + 1) % 1000 == 0)
        if with_next:
            put("next_observations", states[1:])


def read_by_h5py(path):
    clock, processor = time.perf_counter(), time.process_time()
    with h5py.File(path) as file:
        arrays = {name: file[name][()] for name in FIELDS if name in file}
        arrays = {k: v.astype(np.float32, copy=False) if v.dtype.kind == "f" else v for k, v in arrays.items()}
    return time.perf_counter() - clock, time.process_time() - processor


def seconds_of_h5py(path):
    return json.loads(subprocess.run([sys.executable, __file__, "--one", path], check=True, capture_output=True).stdout)


def seconds_of_hambo(program, path):
    spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    before = spent()
    line = subprocess.run([program, "--read", path], check=True, capture_output=True).stdout
    return json.loads(line)["seconds"], spent() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hambo", type=Path, default=Path("target/release/hambo-bench"))
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(read_by_h5py(options.one)))
        return
    DATA.mkdir(exist_ok=True)
    print(f"| {options.rows} rows, best of {options.rounds} | h5py | hambo | hambo / h5py | processor time: h5py | hambo | hambo / h5py |")
    print("|---" * 7 + "|")
    for kind, how in KINDS.items():
        for with_next in (False, True):
            path = DATA / f"read-{kind}-{'next' if with_next else 'plain'}.hdf5"
            make(path, options.rows, how, with_next)
            path.read_bytes()  # into memory
            times = {"h5py": [], "hambo": []}
            for _ in range(options.rounds):
                times["h5py"].append(seconds_of_h5py(path))
                times["hambo"].append(seconds_of_hambo(options.hambo, path))
            name = f"{kind}{', with next observations' if with_next else ''}"
            line = f"| {name} |"
            for i in range(2):  # on the clock, of the processors
                h5py_s, hambo_s = (min(t[i] for t in times[peer]) for peer in ("h5py", "hambo"))
                line += f" {h5py_s:.3f} s | {hambo_s:.3f} s | {hambo_s / h5py_s:.2f} |"
            print(line, flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
