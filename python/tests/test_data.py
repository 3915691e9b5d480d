"""Every kind of data gives the same answer as the file that it came from."""

import gymnasium
import numpy as np
import pytest
from conftest import SWING_UP, TINY

import hambo

METHOD = {"methods": "dainf"}


@pytest.fixture(scope="module")
def expected(log, pendulum):
    return hambo.evaluate(log, SWING_UP, **METHOD, **pendulum).lower_bound


def columns(arrays):
    table = {f"s{i}": arrays["observations"][:, i] for i in range(3)}
    table |= {f"next_s{i}": arrays["next_observations"][:, i] for i in range(3)}
    return table | {
        "a0": arrays["actions"][:, 0],
        "reward": arrays["rewards"],
        "terminal": arrays["terminals"],
        "timeout": arrays["timeouts"],
    }


def test_transitions(arrays, expected, pendulum):
    names = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")
    transitions = hambo.Transitions(*(arrays[name] for name in names))
    assert np.shares_memory(transitions.states, arrays["observations"])
    assert len(transitions) == 1000 and "1000 rows" in repr(transitions)
    assert hambo.evaluate(transitions, SWING_UP, **METHOD, **pendulum).lower_bound == expected


def test_arrays_of_other_types_and_layouts(arrays, expected, pendulum):
    other = {
        "obs": np.asfortranarray(arrays["observations"].astype(np.float64)),
        "acts": arrays["actions"].tolist(),
        "rews": arrays["rewards"][:, None],
        "next_obs": np.concatenate([arrays["next_observations"]] * 2)[: len(arrays["rewards"])],
        "dones": arrays["terminals"].astype(np.int64),
        "truncations": arrays["timeouts"].astype(np.float32),
        "infos": object(),
    }
    assert hambo.evaluate(other, SWING_UP, **METHOD, **pendulum).lower_bound == expected


def test_rows_without_next_states(arrays, pendulum):
    rows = {name: arrays[name] for name in ("observations", "actions", "rewards", "terminals", "timeouts")}
    told = hambo.evaluate(rows, SWING_UP, **METHOD, **pendulum).to_dict()
    assert told["data"]["transitions"] == 1000 - told["data"]["episodes"]


def test_pandas(arrays, expected, pendulum):
    import pandas

    frame = pandas.DataFrame(columns(arrays))
    assert hambo.evaluate(frame, SWING_UP, **METHOD, **pendulum).lower_bound == expected
    renamed = frame.rename(columns={"a0": "torque"})
    result = hambo.evaluate(renamed, SWING_UP, columns={"action": "torque"}, **METHOD, **pendulum)
    assert result.lower_bound == expected
    with pytest.raises(hambo.DataError, match="no column for the action"):
        hambo.evaluate(renamed, SWING_UP, **pendulum)
    broken = frame.astype({"s1": object})
    broken.loc[7, "s1"] = "wide"
    with pytest.raises(hambo.DataError, match="column `s1`"):
        hambo.evaluate(broken, SWING_UP, **pendulum)


def test_polars(arrays, expected, pendulum):
    import polars

    frame = polars.DataFrame(columns(arrays))
    assert hambo.evaluate(frame, SWING_UP, **METHOD, **pendulum).lower_bound == expected
    assert hambo.evaluate(frame.lazy(), SWING_UP, **METHOD, **pendulum).lower_bound == expected
    missing = frame.with_columns(polars.when(polars.col("s0") > 0).then(polars.col("s0")).alias("s0"))
    with pytest.raises(hambo.DataError, match="column `s0`: NaN"):
        hambo.evaluate(missing, SWING_UP, **pendulum)


def test_several_paths_and_a_part(place, log, pendulum):
    told = hambo.evaluate([log, place / "pend.hdf5"], SWING_UP, **METHOD, **pendulum)
    assert any("copies" in warning for warning in told.warnings)
    part = hambo.evaluate(log, SWING_UP, subsample=400, **METHOD, **pendulum)
    assert part.to_dict()["data"]["transitions"] == 400


def test_a_part_of_arrays_is_the_same_part(arrays, log, pendulum):
    by_file = hambo.evaluate(log, SWING_UP, subsample=400, **METHOD, **pendulum)
    by_arrays = hambo.evaluate(arrays, SWING_UP, subsample=400, **METHOD, **pendulum)
    assert by_file.lower_bound == by_arrays.lower_bound


def test_minari(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    import minari

    env = minari.DataCollector(gymnasium.make("Pendulum-v1", max_episode_steps=50))
    env.action_space.seed(0)
    for seed in range(8):
        env.reset(seed=seed)
        ended = False
        while not ended:
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            ended = terminated or truncated
    data = env.create_dataset("test/pendulum-v0", algorithm_name="random", author="x", author_email="x", code_permalink="x")
    settings = {"env": gymnasium.make("Pendulum-v1"), "horizon": 10, **METHOD, **TINY}
    by_object = hambo.evaluate(data, SWING_UP, **settings)
    by_name = hambo.evaluate("minari:test/pendulum-v0", SWING_UP, **settings)
    assert by_object.lower_bound == by_name.lower_bound
    assert by_object.to_dict()["data"] == by_name.to_dict()["data"]
    part = hambo.evaluate(data.filter_episodes(lambda episode: episode.id != 0), SWING_UP, **settings).to_dict()
    assert part["data"]["episodes"] == 7 and part["data"]["transitions"] == 350


def test_d3rlpy(arrays, pendulum):
    d3rlpy = pytest.importorskip("d3rlpy")
    data = d3rlpy.dataset.MDPDataset(
        arrays["observations"],
        arrays["actions"],
        arrays["rewards"],
        arrays["terminals"].astype(np.float32),
        timeouts=arrays["timeouts"].astype(np.float32),
    )
    rows = {name: arrays[name] for name in ("observations", "actions", "rewards", "terminals", "timeouts")}
    ours = hambo.evaluate(data, SWING_UP, **METHOD, **pendulum)
    assert ours.lower_bound == hambo.evaluate(rows, SWING_UP, **METHOD, **pendulum).lower_bound
