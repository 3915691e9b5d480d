"""Damages the files that hambo keeps, one bit or one page in each trial, and looks at what becomes of it: an error, or the
same bits; never another number.

    python3 tests/campaign/damage.py target/release/hambo [--seconds 60] [--stride 31]

Without --seconds one bit of every STRIDE-th byte is flipped and every page zeroed; files are also cut off, doubled and removed.
"""

import argparse
import collections
import concurrent.futures
import sys
import time

from place import COMMANDS, Place, differences, shuffled

PAGES = (512, 4096)
EVALUATE = COMMANDS["evaluate"].replace(" --threshold -1000", "")
FITTED = EVALUATE.replace("--model-config model.json", "--fitted fit").replace(" --out run", " --out other")


def unfinished(command):
    """Runs a command that ends before it is published, since a folder is in the way of a file."""

    def prepare(place):
        place.path("run/report.html/x").mkdir(parents=True)
        assert place.run(COMMANDS[command]).code == 2
        place.path("run/report.html/x").rmdir()
        place.path("run/report.html").rmdir()

    return prepare


def fitted(place):
    assert place.run(EVALUATE.replace("--out run", "--out fit")).code == 0


def trained(place):
    assert place.run(COMMANDS["train"].replace("--steps 450", "--steps 250")).code == 0


def swept(place):
    assert place.run(COMMANDS["sweep"]).code == 0


SWEEP = "models of a sweep"
# What is damaged: how it comes about, the files, the command that then reads them, and where its results are.
CASES = {
    "a fitted model": (fitted, "fit/model.*", FITTED, "other"),
    "unfinished evaluation": (unfinished("evaluate"), "run/unfinished/*", COMMANDS["evaluate"], "run"),
    "unfinished ranking": (unfinished("rank"), "run/unfinished/*", COMMANDS["rank"], "run"),
    "unfinished learning": (unfinished("learn"), "run/unfinished/*", COMMANDS["learn"], "run"),
    "a training": (trained, "run/[tr]*", COMMANDS["train"], "run"),
    SWEEP: (swept, "run/fits/*/*", COMMANDS["sweep"].replace("plan.toml", "more.toml"), "run"),
}


class Case:
    def __init__(self, base, name):
        prepare, pattern, self.line, self.out = CASES[name]
        self.name, self.place = name, base.copy()
        more = self.place.path("plan.toml").read_text().replace('y=2.0"]', 'y=2.0", "builtin:waypoint,y=2.5"]')
        self.place.path("more.toml").write_text(more)
        prepare(self.place)
        self.files = {str(path.relative_to(self.place.folder)): path.read_bytes() for path in sorted(self.place.folder.glob(pattern)) if path.is_file()}
        assert self.files, name
        with self.place.copy() as place:
            self.run = place.run(self.line)
            self.whole = place.files(self.out)
        assert self.run.code in (0, 1), f"{name}: {self.run.error}"

    def trials(self, stride):
        for file, content in self.files.items():
            bits = [("bit", 8 * byte + i % 8) for i, byte in enumerate(range(0, len(content), stride))]
            pages = [(f"page of {size}", at) for size in PAGES for at in range(0, len(content), size) if any(content[at : at + size])]
            others = [("cut", at) for at in range(0, len(content), max(1, len(content) // 20))] + [("doubled", 0), ("gone", 0)]
            yield from ((self, file, what, at) for what, at in bits + pages + others)

    def trial(self, file, what, at):
        """What is wrong with it, if anything, and how the command ended."""
        with self.place.copy() as place:
            changed = damaged(self.files[file], what, at)
            if changed is None:
                place.path(file).unlink()
            else:
                place.path(file).write_bytes(changed)
            run = place.run(self.line)
            if run.crashed():
                return f"exit code {run.code}: {run.error}", "wrong"
            if run.code == 2:
                good = run.error.startswith("error: ") and run.error.count("\n") == 1
                return None if good else f"no message of one line: {run.error!r}", "error"
            if run.code == 1 and self.name == SWEEP and any(place.path("run/failed").iterdir()):
                return None, "error"  # of the job
            differs = [name for name in differences(self.whole, place.files(self.out)) if name in self.whole and name != file.partition("/")[2]]
            if differs or run.code != self.run.code:
                return f"exit code {run.code}, {differs} differ", "wrong"
            return None, "same"


def damaged(content, what, at):
    if what == "gone":
        return None
    if what == "doubled":
        return content + content
    if what == "cut":
        return content[:at]
    if what == "bit":
        return content[: at // 8] + bytes([content[at // 8] ^ 1 << at % 8]) + content[at // 8 + 1 :]
    size = int(what.split()[-1])
    return content[:at] + bytes(len(content[at : at + size])) + content[at + size :]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hambo")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--stride", type=int, default=31)
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    end = time.monotonic() + asked.seconds
    counts, wrong = collections.Counter(), []
    with Place(asked.hambo) as base:
        cases = [Case(base, name) for name in asked.only]
        trials = shuffled((trial for case in cases for trial in case.trials(asked.stride)), asked.seed)

        def one(trial):
            case, file, what, at = trial
            if time.monotonic() < end:
                problem, ended = case.trial(file, what, at)
                counts[case.name, ended] += 1
                if problem:
                    wrong.append(f"{case.name}: {file}, {what} {at}: {problem.strip()}")
                    print(wrong[-1], flush=True)

        with concurrent.futures.ThreadPoolExecutor(asked.workers) as workers:
            list(workers.map(one, trials))
        for case in cases:
            with case.place:
                parts = ", ".join(f"{counts[case.name, ended]} {ended}" for ended in ("error", "same", "wrong"))
                print(f"{case.name}: {len(case.files)} files, {sum(map(len, case.files.values()))} bytes: {parts}")
    print(f"{sum(counts.values())} of {len(trials)} kinds of damage tried (seed {asked.seed}), {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
