"""Writes the small D4RL-like HDF5 files that `tests/hdf5.rs` reads: `python make_d4rl.py` (h5py, numpy) in this folder.

Every value follows from its row i and column j, so that the test computes what it expects:
    observations[i, j] = i + j/8    actions[i, j] = i/4 - j    rewards[i] = i/2
    next_observations[i] = observations[i + 1] within an episode, observations[i] + 1000 at its end
All are exact in float32. Made with h5py 3.16.0 and numpy 2.4.6.
"""

import h5py
import numpy as np

N = 40
ROWS = np.arange(N)
OBSERVATIONS = ROWS[:, None] + np.arange(3) / 8
ACTIONS = ROWS[:, None] / 4 - np.arange(2)
REWARDS = ROWS / 2


def flags(*rows):
    """True in these rows."""
    return np.isin(ROWS, rows)


def next_observations(*ends):
    """The state one row on, and far away after the rows that end an episode."""
    following = OBSERVATIONS + 1
    following[list(ends)] = OBSERVATIONS[list(ends)] + 1000
    return following


# As D4RL writes: float32, gzip, bool; no next_observations.
with h5py.File("f32_gzip_bool.hdf5", "w") as f:
    gzip = {"compression": "gzip", "chunks": True}
    f.create_dataset("observations", data=OBSERVATIONS.astype("f4"), compression="gzip", chunks=(16, 2))
    f.create_dataset("actions", data=ACTIONS.astype("f4"), **gzip)
    f.create_dataset("rewards", data=REWARDS.astype("f4"), **gzip)
    f.create_dataset("terminals", data=flags(9), **gzip)
    f.create_dataset("timeouts", data=flags(24), **gzip)
    f["infos/qpos"] = OBSERVATIONS.astype("f4")
    f.create_dataset("metadata/algorithm", data=np.bytes_("SAC"))

# As written without options: float64, contiguous, uint8 flags, rewards [n, 1]; the end of row 19 is not marked.
with h5py.File("f64_contiguous_uint8.hdf5", "w") as f:
    f["observations"] = OBSERVATIONS
    f["actions"] = ACTIONS
    f["rewards"] = REWARDS[:, None]
    f["terminals"] = flags(9).astype("u1")
    f["next_observations"] = next_observations(9, 19, N - 1)

# Float flags and shuffle; the next observation of the timeout in row 24 is the state after the reset.
with h5py.File("f64_shuffle_float_flags.hdf5", "w") as f:
    for name, data in {
        "observations": OBSERVATIONS,
        "actions": ACTIONS,
        "rewards": REWARDS,
        "terminals": flags(9).astype("f8"),
        "timeouts": flags(24, N - 1).astype("f8"),
        "next_observations": next_observations(9, N - 1),
    }.items():
        f.create_dataset(name, data=data, compression="gzip", shuffle=True, chunks=(7, *data.shape[1:]))

# Integers, big-endian floats, the newest file format, no flags at all; the state jumps by 500 after row 29.
with h5py.File("int_big_endian_no_flags.hdf5", "w", libver="latest") as f:
    f["observations"] = (ROWS[:, None] + 500 * (ROWS[:, None] > 29) + 8 * np.arange(3)).astype("i4")
    f["actions"] = ACTIONS.astype(">f4")
    f.create_dataset("rewards", data=(2 * REWARDS).astype("u2"), chunks=(8,), compression="gzip")
