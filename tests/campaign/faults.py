"""Makes calls to the file system fail, one in each trial, and looks at what is left and at whether the same command
then ends with the same bits:

    python3 tests/campaign/faults.py target/release/hambo [--seconds 60] [--only evaluate rank] [--every 1]

Without --seconds every call of every command fails in every way. Needs a C compiler; Linux.
"""

import argparse
import collections
import concurrent.futures
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from place import BEFORE, COMMANDS, Place, differences, shuffled

ROOM = {"open64", "openat64", "write", "pwrite64", "writev", "copy_file_range", "fsync", "fdatasync", "ftruncate64", "rename", "link", "linkat", "mkdir"}
WAITS = {"open64", "openat64", "write", "pwrite64", "writev", "read", "pread64", "readv", "fsync", "fdatasync", "ftruncate64", "flock"}
PARTS = {"write", "pwrite64", "writev", "read", "pread64", "readv", "copy_file_range"}
CHANGES = ROOM | {"unlink", "unlinkat", "rmdir", "close"}
# Which calls each kind of fault is tried on.
KINDS = {
    "kill": CHANGES,
    "killed": CHANGES,
    "eio": None,
    "enospc": ROOM,
    "eintr": WAITS,
    "short": PARTS,
    "full": ROOM,
    "gone": None,
}
# What says that a run is whole; the others are there before it.
LAST = {"evaluate": "result.json", "gp": "result.json", "curves": "result.json", "rank": "result.json", "learn": "result.json", "over": "result.json"}


def results(names):
    """Without what a run could not remove in the end, which is no reason to fail."""
    left = ("unfinished/", ".tmp", ".now-", ".hambo.lock")
    return [name for name in names if not any(part in name for part in left)]


def shim(folder, name="faults.c"):
    library = Path(folder) / "faults.so"
    source = Path(__file__).with_name(name)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return str(library)


class Campaign:
    kinds, commands = KINDS, COMMANDS

    def __init__(self, hambo, library):
        self.library = library
        self.environment = {}  # of every run
        self.base = Place(hambo)
        self.places, self.old, self.whole, self.codes, self.calls = {}, {}, {}, {}, {}

    def prepare(self, command):
        """What the command does where nothing fails, twice, and which calls it makes."""
        line, base = self.commands[command], self.base.copy()
        self.places[command] = base
        if command in BEFORE:
            assert base.run(BEFORE[command], **self.environment).code in (0, 1)
            self.old[command] = base.files()
        with base.copy() as place, base.copy() as other:
            trace = place.folder.with_suffix(".trace")
            code = self.faulty(place, line, 0, "none", trace).code
            self.calls[command] = [call.split()[1] for call in trace.read_text().splitlines()]
            trace.unlink()
            again = other.run(line, **self.environment)
            self.whole[command], self.codes[command] = place.files(), code
            assert code == again.code and code in (0, 1), f"{command}: {again.error}"
            assert not differences(place.files(), other.files()), differences(place.files(), other.files())
            assert len(self.calls[command]) > 20, "the shim saw nothing"

    def faulty(self, place, line, at, kind, trace=None):
        fault = {"LD_PRELOAD": self.library, "FAULT_UNDER": str(place.folder), "FAULT_AT": str(at), "FAULT_KIND": kind}
        traced = {"FAULT_TRACE": str(trace)} if trace else {}
        return place.run(line, **self.environment, **fault, **traced)

    def trials(self, command, every):
        for kind, calls in self.kinds.items():
            for at, call in enumerate(self.calls[command], 1):
                if (calls is None or call in calls) and at % every == 0:
                    yield command, kind, at, call

    def trial(self, command, kind, at):
        """What is wrong with this trial, if anything, and how the faulty run ended."""
        line, whole = self.commands[command], self.whole[command]
        with self.places[command].copy() as place:
            run = self.faulty(place, line, at, kind)
            if run.code == -9 and kind in ("kill", "killed"):
                ended = "killed"
            elif run.crashed() or run.code == 1 and self.codes[command] != 1 and command != "sweep":
                return f"exit code {run.code}: {run.error}", "wrong"
            else:
                ended = {True: "same", False: "error"}[run.code == self.codes[command]]
            left = place.files()
            if ended == "same" and (differs := results(differences(whole, left))):
                return f"exit code {run.code}, but {differs} differ", "wrong"
            if ended == "error" and not run.error.startswith("error: ") and command != "sweep":
                return f"no message: {run.error!r}", "wrong"
            if (last := LAST.get(command)) in left and (differs := self.damaged(command, left)):
                return f"{last} is there, and {differs} differ", "wrong"
            again = place.run(line + (" --retry-failed" if command == "sweep" else ""), **self.environment)
            if again.code != self.codes[command]:
                return f"then exit code {again.code}: {again.error or again.out}", "wrong"
            differs = differences(whole, place.files())
            # A job that is done is not looked at again.
            if differs := results(differs) if command == "sweep" else differs:
                return f"then {differs} differ", "wrong"
        return None, ended

    def damaged(self, command, left):
        """Files of a whole run, or of the one before it, that are not there, or other ones."""
        old, whole = self.old.get(command, {}), self.whole[command]
        differ = lambda files: [name for name in differences(files, left) if name in files]
        return differ(whole) if not old else differ(whole) and differ(old)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for place in [self.base, *self.places.values()]:
            place.__exit__()


def main(kind=Campaign, source="faults.c"):
    parser = argparse.ArgumentParser()
    parser.add_argument("hambo")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--only", nargs="+", default=list(kind.commands), choices=list(kind.commands))
    parser.add_argument("--every", type=int, default=1, help="try every n-th call only")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    counts, wrong = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        with kind(asked.hambo, shim(folder, source)) as campaign:
            for command in asked.only:
                campaign.prepare(command)
            trials = shuffled((t for c in asked.only for t in campaign.trials(c, asked.every)), asked.seed)

            def one(trial):
                command, kind, at, call = trial
                if time.monotonic() < end:
                    problem, ended = campaign.trial(command, kind, at)
                    counts[command, ended] += 1
                    if problem:
                        wrong.append(f"{command}: {kind} at call {at} ({call}): {problem.strip()}")
                        print(wrong[-1], flush=True)

            with concurrent.futures.ThreadPoolExecutor(asked.workers) as workers:
                list(workers.map(one, trials))
    for command in asked.only:
        parts = ", ".join(f"{counts[command, ended]} {ended}" for ended in ("killed", "error", "same", "wrong"))
        print(f"{command}: {len(campaign.calls[command])} calls, {sum(n for (c, _), n in counts.items() if c == command)} faults: {parts}")
    print(f"{sum(counts.values())} of {len(trials)} faults tried (seed {asked.seed}), {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
