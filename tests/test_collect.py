"""`hambo collect`, read by h5py and replayed in gymnasium."""

import gymnasium
import h5py
import numpy as np
import pytest

STEPS = 1100
LIMIT = 200


@pytest.fixture(scope="module")
def data(pendulum_file):
    with h5py.File(pendulum_file) as f:
        return {name: f[name][()] for name in f}


def test_h5py_reads_every_field_with_its_type_and_shape(data):
    expected = {
        "observations": ("float32", (STEPS, 3)),
        "actions": ("float32", (STEPS, 1)),
        "next_observations": ("float32", (STEPS, 3)),
        "rewards": ("float32", (STEPS,)),
        "terminals": ("bool", (STEPS,)),
        "timeouts": ("bool", (STEPS,)),
    }
    assert {name: (str(values.dtype), values.shape) for name, values in data.items()} == expected
    for values in data.values():
        assert np.isfinite(values).all()


def test_attributes_say_where_the_data_come_from(pendulum_file):
    with h5py.File(pendulum_file) as f:
        attributes = dict(f.attrs)
    assert attributes.pop("made_by").startswith("hambo ")
    assert attributes == {"env": "pendulum", "policy": "builtin:swing-up", "noise": "0.5 1", "horizon": "200", "seed": "7"}


def test_episodes_follow_the_flags(data):
    assert not data["terminals"].any()
    assert np.flatnonzero(data["timeouts"]).tolist() == [199, 399, 599, 799, 999, STEPS - 1]
    inside = np.flatnonzero(~data["timeouts"])
    np.testing.assert_array_equal(data["next_observations"][inside], data["observations"][inside + 1])
    ends = np.flatnonzero(data["timeouts"])[:-1]
    assert (data["next_observations"][ends] != data["observations"][ends + 1]).any(axis=1).all()


def test_actions_are_noisy_and_within_bounds(data):
    assert np.abs(data["actions"]).max() <= 2
    assert len(np.unique(data["actions"])) > STEPS / 4


@pytest.fixture
def gym_pendulum():
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    return env


def set_state(env, observation):
    cos, sin, speed = observation.astype(float)
    env.state = np.array([np.arctan2(sin, cos), speed])


def assert_next_row(env, data, row):
    observation, reward, *_ = env.step(data["actions"][row])
    np.testing.assert_allclose(data["next_observations"][row], observation, rtol=0, atol=1e-5, err_msg=f"row {row}")
    np.testing.assert_allclose(data["rewards"][row], reward, rtol=0, atol=1e-5, err_msg=f"row {row}")


def test_gymnasium_makes_every_step_the_same(data, gym_pendulum):
    for row in range(STEPS):
        set_state(gym_pendulum, data["observations"][row])
        assert_next_row(gym_pendulum, data, row)


def test_gymnasium_replays_whole_episodes_from_their_first_state(hambo, gym_pendulum):
    # A controller that brakes: around the top, where swing-up balances, the rounding of the first state to float32
    # grows a million-fold within an episode, in gymnasium as anywhere.
    brakes = "builtin:swing-up,energy=-0.3,switch=2"
    hambo.run(f"collect --env pendulum --policy {brakes} --noise 0.5 1.0 --steps {STEPS} --seed 2 --out brakes.hdf5")
    with h5py.File(hambo.folder / "brakes.hdf5") as f:
        data = {name: f[name][()] for name in f}
    for row in range(STEPS):
        if row % LIMIT == 0:
            set_state(gym_pendulum, data["observations"][row])
        assert_next_row(gym_pendulum, data, row)
