"""What the drivers of the campaign share: small commands, the folders they work in, and what came out of them."""

import json
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
COLLECT = "collect --env point-safety --policy builtin:waypoint --noise 0.1 --steps 300 --seed 1 --out data.hdf5"
LOGS = "--data data.hdf5 --env point-safety --horizon 5 --model-config model.json --search-config search.json"
SMALL = f"{LOGS} --rollouts 100 --threads 1 --save-every 0 --force --out run"
FILES = {
    "model.json": '{"folds": 2, "activation": "relu", "particles": 2, "hidden": [4], "steps": 20, "check_every": 10}',
    "search.json": '{"hidden": [4], "iterations": 4, "restarts": 1, "batch": 8, "evaluation": 20}',
    "learn.json": '{"updates": 4, "starts": 20, "hidden": [4], "batch": 8, "checkpoints": 2, "measured": 20}',
    "plan.toml": """
[settings]
horizon = 5
model_config = "model.json"
rollouts = 100
method = "dainf,ds"
save_every = 0
[[grid]]
env = "point-safety"
data = ["data.hdf5"]
policies = ["builtin:waypoint,y=1.6", "builtin:waypoint,y=2.0"]
seeds = [1]
""",
}
# Each ends with results in `run` within a fraction of a second.
COMMANDS = {
    "evaluate": f"evaluate {SMALL} --policy builtin:waypoint --method ca,ds --threshold -1000 --accept extrapolation",
    "gp": f"evaluate {SMALL.replace('--model-config model.json', '--model gp --gp-rows 40')} --policy builtin:waypoint --method ca,ds",
    "curves": f"evaluate {SMALL} --policy builtin:waypoint --method ca,ds --curves",
    "rank": f"rank {SMALL} --policies builtin:waypoint,y=1.6 builtin:waypoint,y=2.0 --method ca,ds",
    "learn": f"learn {SMALL} --adversary ca --learn-config learn.json --steps 20",
    "train": "train --env pendulum --steps 450 --hidden 4,4 --batch 8 --learning-starts 100 --update-every 20 "
    "--evaluate-every 200 --evaluation-episodes 2 --threads 1 --out run",
    "sweep": "sweep plan.toml --threads 1 --stale-after 0.1 --out run",
    "collect": COLLECT.replace("data.hdf5", "run/logs.hdf5 --force"),
}
# What was in the folder before.
BEFORE = {"over": COMMANDS["evaluate"] + " --seed 7"}
COMMANDS["over"] = COMMANDS["evaluate"]
# Times are no part of a result, and neither are the bytes of the pages that show them.
TIMES = {"seconds", "seconds_in_all", "times", "time", "wall", "started", "finished", "worker"}
PAGES = {"report.html", "index.html", "table.html", "summary.md"}


class Run:
    """What a process did."""

    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode(errors="replace")
        self.error = process.stderr.decode(errors="replace")

    def crashed(self):
        """Whether it ended in a way that no file may bring about."""
        return "panicked" in self.error or self.code not in (0, 1, 2)


class Place:
    """A folder with logs and settings, in memory; `copy` gives a fresh one."""

    def __init__(self, hambo, source=None):
        self.hambo = str(Path(hambo).resolve())
        self.folder = Path(tempfile.mkdtemp(prefix="hambo-campaign-", dir=MEMORY))
        if source is not None:
            shutil.copytree(source, self.folder, dirs_exist_ok=True)
            return
        for name, text in FILES.items():
            (self.folder / name).write_text(text)
        (self.folder / "run").mkdir()
        assert self.run(COLLECT).code == 0

    def copy(self):
        return Place(self.hambo, self.folder)

    def run(self, line, timeout=120, **environment):
        words = [self.hambo, *line.split(), "--quiet"]
        # Kernels that were compiled for another card, or for none, are kept here.
        variables = {**os.environ, "HAMBO_AMX": "off", "XDG_CACHE_HOME": str(self.path("cache")), **environment}
        done = subprocess.run(words, cwd=self.folder, env=variables, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
        return Run(done)

    def path(self, name):
        return self.folder / name

    def files(self, folder="run"):
        """All files below, by name, with what of them must be the same every time."""
        root = self.path(folder)
        found = (path for path in root.rglob("*") if path.is_file() and not is_log(path))
        return {str(path.relative_to(root)): told(path) for path in sorted(found)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


def is_log(path):
    """Whether the file says how a run went or was asked, not what came out."""
    return path.name in ("log.csv", "run.toml") or path.name.startswith("events.")


def told(path):
    """The content of a file without times."""
    if path.name in PAGES:
        return path.name
    content = path.read_bytes()
    if path.suffix == ".json":
        try:
            return timeless(json.loads(content))
        except ValueError:
            return content
    return content


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in TIMES}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def differences(expected, found):
    """Names of the files that are missing, too many or other ones."""
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def shuffled(items, seed):
    items = list(items)
    random.Random(seed).shuffle(items)
    return items
