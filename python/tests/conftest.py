"""What the tests share: tiny settings, a log of Pendulum, and the command to compare with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("HAMBO", ROOT / "target/release/hambo"))

MODEL = {"hidden": [16], "steps": 200, "folds": 2, "particles": 3}
SAC = {"learning": {"rounds": 2, "episodes": 20, "updates": 20, "batch": 16, "hidden": [8]}}
SEARCH = {"restarts": 1, "iterations": 5, "batch": 16, "evaluation": 50, "sac": SAC}
# Quick, and far from any answer that one would believe.
TINY = {"rollouts": 100, "model_config": MODEL, "search_config": SEARCH, "device": "cpu"}
SWING_UP = "builtin:swing-up"


def run(*words, cwd, code=0):
    """The real command's output."""
    done = subprocess.run([BINARY, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with a log of Pendulum and the settings as files."""
    folder = tmp_path_factory.mktemp("hambo")
    words = "collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 --steps 1000 --seed 1 --out pend.hdf5"
    run(*words.split(), cwd=folder)
    (folder / "model.json").write_text(json.dumps(MODEL))
    (folder / "search.json").write_text(json.dumps(SEARCH))
    return folder


@pytest.fixture(scope="session")
def log(place):
    return str(place / "pend.hdf5")


@pytest.fixture(scope="session")
def arrays(log):
    with h5py.File(log) as file:
        return {name: file[name][:] for name in file}


@pytest.fixture(scope="session")
def pendulum():
    return {"env": "pendulum", "horizon": 10, **TINY}


@pytest.fixture(scope="session")
def command():
    """The command that came with the package."""
    return Path(sys.executable).with_name("hambo")
