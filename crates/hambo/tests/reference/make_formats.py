"""Writes the small data files that `tests/formats.rs` reads into `formats/`: `python make_formats.py` in this folder.

Every value follows from its episode e and step t, so that the test computes what it expects:
    state[j] = 100 e + t + j/8    action[j] = t/4 - j - e    reward = t/2 + e
All are exact in float32. Episodes 0 to 4, 10 and 11 of 3 + e % 3 steps: `episode_10` must come after `episode_2`;
episode 1 ends in a terminal state, the others by a time limit. States have 3, actions 2 dimensions.
Made with h5py 3.16.0, numpy 2.4.6 and pyarrow 26.0.1.
"""

import csv
import os
import shutil

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet

EPISODES = [0, 1, 2, 3, 4, 10, 11]
TERMINAL = 1

os.makedirs("formats", exist_ok=True)
os.chdir("formats")


def steps(e):
    return 3 + e % 3


def states(e, count):
    """The first `count` states of episode e; one more than steps with the last next state."""
    return 100.0 * e + np.arange(count)[:, None] + np.arange(3) / 8


def actions(e):
    return np.arange(steps(e))[:, None] / 4 - np.arange(2) - e


def rewards(e):
    return np.arange(steps(e)) / 2 + e


def last(e):
    return np.arange(steps(e)) == steps(e) - 1


def rows(function):
    """All episodes one after another."""
    return np.concatenate([function(e) for e in EPISODES])


OBSERVATIONS = rows(lambda e: states(e, steps(e)))
NEXT = rows(lambda e: states(e, steps(e) + 1)[1:])
ACTIONS, REWARDS = rows(actions), rows(rewards)
TERMINALS = rows(lambda e: last(e) & (e == TERMINAL))
TIMEOUTS = rows(lambda e: last(e) & (e != TERMINAL))
EPISODE = rows(lambda e: np.full(steps(e), e))

# Minari 0.5: a folder with one group an episode.
shutil.rmtree("minari", ignore_errors=True)
os.makedirs("minari/test/line-v0/data")
with h5py.File("minari/test/line-v0/data/main_data.hdf5", "w", libver="latest") as f:
    for e in EPISODES:
        group = f.create_group(f"episode_{e}")
        group.attrs["id"] = e
        group["observations"] = states(e, steps(e) + 1).astype("f4")
        group["actions"] = actions(e).astype("f4")
        group["rewards"] = rewards(e)
        group["terminations"] = last(e) & (e == TERMINAL)
        group["truncations"] = last(e) & (e != TERMINAL)

# Minari with a Dict space of observations.
with h5py.File("minari_dict.hdf5", "w") as f:
    group = f.create_group("episode_0")
    group["observations/achieved_goal"] = np.zeros((4, 2), "f4")
    group["observations/desired_goal"] = np.zeros((4, 2), "f4")
    group["observations/observation/position"] = np.zeros((4, 2), "f4")
    group["actions"] = np.zeros((3, 1), "f4")
    group["rewards"] = np.zeros(3)
    group["terminations"] = np.zeros(3, bool)
    group["truncations"] = np.zeros(3, bool)

# NPZ with D4RL's names, compressed, in Fortran order and big-endian, flags as integers.
np.savez_compressed(
    "d4rl_names.npz",
    observations=np.asfortranarray(OBSERVATIONS),
    actions=ACTIONS.astype(">f4"),
    rewards=REWARDS[:, None].astype(">f8"),
    terminals=TERMINALS.astype("u1"),
    timeouts=TIMEOUTS.astype("<i8"),
    next_observations=np.asfortranarray(NEXT.astype("f4")),
)

# NPZ as Stable-Baselines 2 writes it: starts of episodes, no next observations, no terminals.
np.savez(
    "stable_baselines.npz",
    obs=OBSERVATIONS.astype("f4"),
    actions=ACTIONS.astype("f4"),
    rewards=REWARDS,
    episode_returns=np.array([rewards(e).sum() for e in EPISODES]),
    episode_starts=rows(lambda e: np.arange(steps(e)) == 0),
)

# NPZ of one episode each.
for e in range(3):
    np.savez_compressed(
        f"episode_{e}.npz",
        observations=states(e, steps(e) + 1),
        actions=actions(e).astype("f4"),
        rewards=rewards(e),
        time=np.arange(steps(e) + 1) * 0.004,
        done=last(e),
    )

# An NPZ whose observations are pickled objects.
np.savez("pickled.npz", observations=np.array([{"a": 1}, None]), actions=ACTIONS, rewards=REWARDS)


def write_csv(path, header, columns, separator=","):
    with open(path, "w", newline="") as f:
        writer = csv.writer(f, delimiter=separator, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(zip(*columns, strict=True))


# CSV with usual names, next states and flags in words.
write_csv(
    "usual_names.csv",
    ["episode", "obs_0", "obs_1", "obs_2", "action_0", "action_1", "reward", "terminated", "truncated"]
    + ["next_obs_0", "next_obs_1", "next_obs_2"],
    [EPISODE, *OBSERVATIONS.T, *ACTIONS.T, REWARDS, TERMINALS, TIMEOUTS, *NEXT.T],
)
# CSV with names of its own, separated by semicolons, episodes named, no next states.
write_csv(
    "own_names.csv",
    ["time", "run", "angle", "speed", "load", "u", "v", "gain"],
    [np.arange(len(REWARDS)), [f"run {e}" for e in EPISODE], *OBSERVATIONS.T, *ACTIONS.T, REWARDS],
    ";",
)

# Parquet as pandas writes it: Snappy, optional columns, an index column that is not used.
table = pyarrow.table(
    {
        "episode": EPISODE,
        **{f"s{j}": OBSERVATIONS[:, j].astype("f4") for j in range(3)},
        **{f"a{j}": ACTIONS[:, j] for j in range(2)},
        "reward": REWARDS,
        "terminal": TERMINALS,
        "timeout": TIMEOUTS.astype("i4"),
        **{f"next_s{j}": NEXT[:, j] for j in range(3)},
        "__index_level_0__": np.arange(len(REWARDS)),
    }
)
pyarrow.parquet.write_table(table, "usual_names.parquet", row_group_size=20)
table = pyarrow.table({"s0": [0.0, None, 1.0], "a0": [1, 2, 3], "reward": [0, 0, 0]})
pyarrow.parquet.write_table(table, "missing_value.parquet", compression="none")
n = 12
table = pyarrow.table({
    "episode": ["one"] * 6 + ["two"] * 6,
    "s0": np.arange(n, dtype=np.float32), "a0": np.ones(n, np.float32), "reward": np.zeros(n, np.float32),
})
for name, options in {
    "text_episodes": {"data_page_version": "2.0"},
    "gzip": {"compression": "gzip"},
    "delta_text": {"use_dictionary": False, "column_encoding": {"episode": "DELTA_BYTE_ARRAY"}},
}.items():
    pyarrow.parquet.write_table(table, f"{name}.parquet", write_statistics=False, store_schema=False, **options)
