"""MuJoCo's environments from outside: returns of other people's agents, collected data, and a library that is not there."""

import os
import shutil
import subprocess

import gymnasium
import h5py
import numpy as np
import pytest
from conftest import BINARY, ROOT, asset

CHECKPOINTS = ROOT / "checkpoints"
# Mean and deviation of ten deterministic episodes of 1000 steps in gymnasium.
AGENTS = {
    ("Hopper", "a2c"): (822, 434),
    ("Hopper", "ars"): (3293, 6),
    ("Hopper", "ppo"): (2438, 5),
    ("Hopper", "trpo"): (3472, 457),
    ("HalfCheetah", "a2c"): (3015, 169),
    ("HalfCheetah", "ars"): (5062, 290),
    ("HalfCheetah", "ppo"): (5875, 46),
    ("HalfCheetah", "trpo"): (1790, 56),
}


@pytest.mark.parametrize("version", ["", "-v5"])
@pytest.mark.parametrize(("robot", "algorithm"), AGENTS)
def test_agents_earn_what_they_earn_in_gymnasium(hambo, robot, algorithm, version):
    path = asset(f"sb3/{algorithm}/{robot}-v3/{robot}-v3.zip")  # of DLR-RM/rl-trained-agents
    found = hambo.json(f"return --env {robot.lower()}{version} --policy {path} --horizon 1000 --episodes 30 --seed 1")
    mean, std = AGENTS[robot, algorithm]
    error = np.hypot(found["std_error"], max(std, found["std"]) / np.sqrt(10))
    assert abs(found["value"] - mean) < 3.5 * error, found
    assert found["diverged_episodes"] == 0
    assert not (hambo.folder / "MUJOCO_LOG.TXT").exists()


@pytest.fixture(scope="module")
def hopper_file(hambo):
    ladder = [CHECKPOINTS / f"hopper/{name}.safetensors" for name in ("bad", "mediocre-1")]
    hambo.run(
        f"collect --env hopper --policy {ladder[0]} {ladder[1]} --noise 0.1 0.4 --steps 5000 --seed 3 --out hopper.hdf5"
    )
    return hambo.folder / "hopper.hdf5"


def test_collected_hopper_data_have_d4rls_layout(hopper_file):
    with h5py.File(hopper_file) as f:
        shapes = {name: (str(f[name].dtype), f[name].shape) for name in f}
        attributes = dict(f.attrs)
    assert shapes == {
        "observations": ("float32", (5000, 11)),
        "actions": ("float32", (5000, 3)),
        "next_observations": ("float32", (5000, 11)),
        "rewards": ("float32", (5000,)),
        "terminals": ("bool", (5000,)),
        "timeouts": ("bool", (5000,)),
    }
    assert attributes["env"] == "hopper"
    assert attributes["noise"] == "0.1 0.4"
    assert attributes["seed"] == "3"
    assert "bad.safetensors" in attributes["policy"] and "mediocre-1.safetensors" in attributes["policy"]


def test_collected_hopper_data_end_where_the_hopper_falls(hopper_file):
    with h5py.File(hopper_file) as f:
        data = {name: f[name][()] for name in f}
    height, tilt = data["next_observations"][:, 0], data["next_observations"][:, 1]
    fallen = (height <= 0.7) | (np.abs(tilt) >= 0.2)
    np.testing.assert_array_equal(data["terminals"], fallen)
    assert fallen.sum() > 5
    ends = data["terminals"] | data["timeouts"]
    inside = np.flatnonzero(~ends)
    np.testing.assert_array_equal(data["next_observations"][inside], data["observations"][inside + 1])
    starts = np.concatenate([[0], np.flatnonzero(ends)[:-1] + 1])
    assert np.abs(data["observations"][starts] - np.eye(11)[0] * 1.25).max() < 0.0051
    assert np.abs(data["actions"]).max() <= 1
    # Forward speed, plus 1 for each step, less what the actions cost.
    cost = 1e-3 * (data["actions"] ** 2).sum(1)
    speed = data["rewards"] - 1 + cost
    slow = np.abs(data["next_observations"][:, 5:]).max(1) < 2
    np.testing.assert_allclose(speed[slow].mean(), data["next_observations"][slow, 5].mean(), atol=0.02)


def test_gymnasium_makes_the_steps_of_collected_data(hopper_file):
    """All but what rounding to float32 and velocities beyond ±10 change."""
    env = gymnasium.make("Hopper-v4").unwrapped
    with h5py.File(hopper_file) as f:
        states, actions, rewards, following = (
            f[name][:500] for name in ("observations", "actions", "rewards", "next_observations")
        )
    errors = []
    for state, action, reward, expected in zip(states, actions, rewards, following, strict=True):
        env.reset(seed=0)
        env.set_state(np.concatenate([[0.0], state[:5]]), state[5:].astype(float))
        observation, earned, *_ = env.step(action)
        errors.append(max(np.abs(observation - expected).max(), abs(earned - reward)))
    assert np.mean(np.array(errors) < 1e-3) > 0.9, np.sort(errors)[-60:]



def refusal(line, folder, binary=BINARY, **environment):
    done = subprocess.run(
        [binary, *line.split(), "--quiet"], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.fixture
def hopper_return():
    return f"return --env hopper --policy {CHECKPOINTS}/hopper/mediocre-1.safetensors --horizon 10 --episodes 2"


def test_without_the_library_the_cure_is_named(hopper_return, tmp_path):
    binary = tmp_path / "hambo"
    shutil.copy(BINARY, binary)
    error = refusal(hopper_return, tmp_path, binary, MUJOCO_LIB="", HOME=str(tmp_path), XDG_DATA_HOME="")
    assert "libmujoco 3.17.0" in error and "not on this machine" in error and "scripts/get-mujoco" in error


def test_what_others_put_there_is_not_loaded(hopper_return, tmp_path):
    """Neither from the working folder or one above it, nor beside the program if others can write to it."""
    text = "no library, but whoever loads it would say so"
    for place in (tmp_path, tmp_path / "work", tmp_path / "bin"):
        (place / ".mujoco").mkdir(parents=True)
        (place / ".mujoco/libmujoco.so.3.17.0").write_text(text)
    binary = tmp_path / "elsewhere" / "hambo"
    binary.parent.mkdir()
    shutil.copy(BINARY, binary)
    home = {"MUJOCO_LIB": "", "HOME": str(tmp_path / "home"), "XDG_DATA_HOME": ""}
    assert "not on this machine" in refusal(hopper_return, tmp_path / "work", binary, **home)
    shutil.copy(BINARY, tmp_path / "bin/hambo")
    error = refusal(hopper_return, tmp_path, tmp_path / "bin/hambo", **home)
    assert "cannot load" in error  # it is ours
    (tmp_path / "bin/.mujoco").chmod(0o777)
    error = refusal(hopper_return, tmp_path, tmp_path / "bin/hambo", **home)
    assert "others can write to" in error and "MUJOCO_LIB" in error


def test_a_library_of_another_version_is_refused_by_both_names(hopper_return, tmp_path):
    source = tmp_path / "other.c"
    source.write_text('const char *mj_versionString(void) { return "3.3.1"; }\n')
    library = tmp_path / "libmujoco.so.3.3.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    for named in (library, tmp_path):
        error = refusal(hopper_return, tmp_path, MUJOCO_LIB=str(named))
        assert "libmujoco.so.3.3.1" in error and "MuJoCo 3.3.1" in error and "expected 3.17.0" in error


def test_what_is_no_library_is_refused(hopper_return, tmp_path):
    assert "no libmujoco in this folder" in refusal(hopper_return, tmp_path, MUJOCO_LIB=str(tmp_path))
    text = tmp_path / "libmujoco.so.3.17.0"
    text.write_text("no library")
    assert "cannot load" in refusal(hopper_return, tmp_path, MUJOCO_LIB=str(text))
    assert "cannot load" in refusal(hopper_return, tmp_path, MUJOCO_LIB=str(tmp_path / "missing.so"))


def test_a_policy_for_another_environment_is_refused(tmp_path):
    error = refusal(f"return --env halfcheetah --policy {CHECKPOINTS}/hopper/mediocre-1.safetensors --horizon 9 --episodes 2", tmp_path)
    assert "states of 11" in error and "17" in error and "halfcheetah" in error
    error = refusal("return --env hopper-v9 --policy builtin:swing-up --horizon 9 --episodes 2", tmp_path)
    assert "hopper-v5" in error
