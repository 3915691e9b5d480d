"""`hambo inspect` against h5py: files that h5py wrote, our own, and D4RL's where they are at hand."""

import h5py
import numpy as np
import pytest
from conftest import REFERENCE, asset

FIXTURES = sorted(path.name for path in REFERENCE.glob("*.hdf5"))


def fields_by_h5py(path):
    """Path, shape and type of every dataset."""
    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = (list(item.shape), "string" if item.dtype.kind in "SO" else str(item.dtype.newbyteorder("=")))

    with h5py.File(path) as f:
        f.visititems(visit)
    return found


def assert_columns_agree(found, rows, columns):
    """Minimum, mean, maximum and deviation of the rows that are transitions."""
    values = np.concatenate([c[rows].reshape(len(rows), -1) for c in columns], axis=1).astype("f4").astype("f8")
    assert len(found["columns"]) == values.shape[1]
    for column, expected in zip(found["columns"], values.T, strict=True):
        for name in ("min", "mean", "max", "std"):
            assert column[name] == pytest.approx(getattr(expected, name)(), rel=1e-6, abs=1e-6)


def test_there_are_fixtures():
    assert len(FIXTURES) >= 4


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_are_described_as_h5py_sees_them(hambo, name):
    path = REFERENCE / name
    found = hambo.json(f"inspect {path}")
    assert {f["path"]: (f["shape"], f["dtype"]) for f in found["fields"]} == fields_by_h5py(path)
    with h5py.File(path) as f:
        assert found["state_dim"] == f["observations"].shape[1]
        assert found["action_dim"] == f["actions"].shape[1]
        assert found["transitions"] <= f["observations"].shape[0]


def test_a_collected_file_is_described_as_h5py_sees_it(hambo, pendulum_file):
    found = hambo.json(f"inspect {pendulum_file}")
    with h5py.File(pendulum_file) as f:
        rewards, ends = f["rewards"][()].astype(float), np.flatnonzero(f["timeouts"][()]) + 1
        columns = [f[name][()] for name in ("observations", "actions", "rewards")]
        assert found["attributes"] == dict(f.attrs)
    assert found["transitions"] == len(rewards)
    assert found["episodes"] == len(ends)
    returns = [part.sum() for part in np.split(rewards, ends[:-1])]
    assert found["episode_return"] == pytest.approx(
        {"mean": np.mean(returns), "min": np.min(returns), "max": np.max(returns)}
    )
    assert_columns_agree(found, np.arange(len(rewards)), columns)


def test_hopper_medium_is_described_as_h5py_sees_it(hambo):
    path = asset("d4rl/hopper_medium-v2.hdf5")
    found = hambo.json(f"inspect {path}")
    with h5py.File(path) as f:
        states, actions, rewards = (f[n][()] for n in ("observations", "actions", "rewards"))
        terminals, timeouts = f["terminals"][()].astype(bool), f["timeouts"][()].astype(bool)
        stored = "next_observations" in f
    assert {f["path"]: (f["shape"], f["dtype"]) for f in found["fields"]} == fields_by_h5py(path)
    n = len(rewards)
    ends = terminals | timeouts
    ends[-1] = True
    episodes = np.split(np.arange(n), np.flatnonzero(ends)[:-1] + 1)
    if not stored:  # the last row of an episode has no next state
        episodes = [rows[:-1] for rows in episodes if len(rows) > 1]
    rows = np.concatenate(episodes)
    assert (found["state_dim"], found["action_dim"]) == (states.shape[1], actions.shape[1]) == (11, 3)
    assert found["transitions"] == len(rows)
    assert found["episodes"] == len(episodes)
    assert found["terminals"] == terminals[rows].sum()
    lengths = [len(e) for e in episodes]
    returns = [rewards[e].astype(float).sum() for e in episodes]
    for name, values in [("episode_length", lengths), ("episode_return", returns)]:
        expected = {"mean": np.mean(values), "min": np.min(values), "max": np.max(values)}
        assert found[name] == pytest.approx(expected), name
    assert_columns_agree(found, rows, [states, actions, rewards])
