"""The examples of the documents run."""

import subprocess
import sys

import pytest
from conftest import ROOT, SWING_UP, TINY

import hambo


def example(name, *words):
    command = [sys.executable, ROOT / "docs/examples" / name, *words, "--small"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_optuna(log):
    pytest.importorskip("optuna")
    assert example("tune_with_optuna.py", log, "3").startswith("best of 3: {'angle': ")


def test_dask(log):
    pytest.importorskip("distributed")
    lines = example("sweep_with_dask.py", log, SWING_UP, f"{SWING_UP},rate=1").splitlines()
    assert len(lines) == 2
    settings = {"hidden": [16], "steps": 200, "folds": 2}
    alone = hambo.evaluate(
        log, SWING_UP, env="pendulum", horizon=50, effort="quick", methods="ca", seed=1, rollouts=100,
        model_config=settings, search_config={"iterations": 5}, device=TINY["device"],
    )  # fmt: skip
    assert lines[0].split()[:2] == [SWING_UP, str(alone.lower_bound)]
