"""What the tests share: the real binary, and a folder to run it in."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("HAMBO", ROOT / "target/release/hambo"))
REFERENCE = ROOT / "crates/hambo/tests/reference"
ASSETS = os.environ.get("HAMBO_ASSETS")


def asset(path):
    """A file of other people, in the folder that HAMBO_ASSETS names; the test is skipped where there is none."""
    if not ASSETS or not Path(ASSETS, path).exists():
        pytest.skip(f"HAMBO_ASSETS names no folder with {path}")
    return Path(ASSETS, path)


class Hambo:
    """Runs the command in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, line):
        """Requires exit code 0 and silence on standard error; returns standard output."""
        done = self.run_words(line.split())
        assert done.returncode == 0, f"hambo {line}: {done.stdout}"
        return done.stdout

    def run_words(self, words):
        """For words with spaces in them, and for exit code 1, too."""
        done = subprocess.run([BINARY, *words, "--quiet"], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1) and done.stderr == "", f"hambo {words}: {done.stderr}"
        return done

    def json(self, line):
        """The one object that the command prints."""
        return json.loads(self.run(f"{line} --json"))


@pytest.fixture(scope="session")
def hambo(tmp_path_factory):
    assert BINARY.exists(), f"{BINARY} is missing: cargo build --release"
    return Hambo(tmp_path_factory.mktemp("hambo"))


@pytest.fixture(scope="session")
def demo(hambo):
    """What the demo prints, and the folder that it writes."""
    found = hambo.json("demo --out demo")
    return {**found, "folder": hambo.folder / "demo"}


@pytest.fixture(scope="session")
def pendulum_file(hambo):
    """Five full episodes and one that is cut, with two levels of noise."""
    hambo.run("collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 --steps 1100 --seed 7 --out pend.hdf5")
    return hambo.folder / "pend.hdf5"
