"""Writes the data sets with lists and in folders that `tests/inputs.rs` reads, each by the tool that people write it with:
`python make_folders.py` in this folder; `python make_folders.py v21` with a lerobot that writes version 2.1.

The values are those of `make_formats.py`. Made with pyarrow 26.0.1, minari 0.5.4, datasets 5.2.0, lerobot 0.4.4 (v3.0) and
0.3.3 (v2.1), imitation 1.0.1, h5py 3.16.0 and numpy 2.4.6.
"""

import os
import pathlib
import shutil
import sys

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet

EPISODES = [0, 1, 2, 3, 4, 10, 11]
TERMINAL = 1
FOLDER = pathlib.Path(__file__).parent.resolve() / "formats"


def steps(e):
    return 3 + e % 3


def states(e, count):
    return 100.0 * e + np.arange(count)[:, None] + np.arange(3) / 8


def actions(e):
    return np.arange(steps(e))[:, None] / 4 - np.arange(2) - e


def rewards(e):
    return np.arange(steps(e)) / 2 + e


def last(e):
    return np.arange(steps(e)) == steps(e) - 1


def lerobot(name):
    """A data set by lerobot itself, without videos; `next.done` at the end of the terminal episode alone."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = FOLDER / name
    shutil.rmtree(root, ignore_errors=True)
    vector = lambda width: {"dtype": "float32", "shape": (width,), "names": None}
    features = {
        "observation.state": vector(3),
        "action": vector(2),
        "next.reward": vector(1),
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    }
    data = LeRobotDataset.create(f"test/{name}", 10, features, root=root, use_videos=False)
    for e in EPISODES:
        for t in range(steps(e)):
            frame = {
                "observation.state": states(e, steps(e))[t].astype("f4"),
                "action": actions(e)[t].astype("f4"),
                "next.reward": rewards(e)[t : t + 1].astype("f4"),
                "next.done": np.array([e == TERMINAL and last(e)[t]]),
            }
            if name == "lerobot_v21":
                data.add_frame(frame, task="test")
            else:
                data.add_frame({**frame, "task": "test"})
        data.save_episode()
    if hasattr(data, "finalize"):
        data.finalize()
    for unused in ["images", "meta/episodes", "meta/stats.json", "meta/episodes_stats.jsonl"]:
        path = root / unused
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def minari(storage):
    """A data set by Minari itself."""
    os.environ["MINARI_DATASETS_PATH"] = str(FOLDER / "minari")
    import gymnasium as gym
    import minari
    from minari.data_collector import EpisodeBuffer

    shutil.rmtree(FOLDER / f"minari/test/{storage}-v0", ignore_errors=True)
    buffers = [
        EpisodeBuffer(
            id=i,
            observations=states(e, steps(e) + 1).astype("f4"),
            actions=actions(e).astype("f4"),
            rewards=rewards(e),
            terminations=last(e) & (e == TERMINAL),
            truncations=last(e) & (e != TERMINAL),
        )
        for i, e in enumerate(EPISODES)
    ]
    minari.create_dataset_from_buffers(
        dataset_id=f"test/{storage}-v0",
        buffer=buffers,
        env=None,
        data_format=storage,
        observation_space=gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
        action_space=gym.spaces.Box(-np.inf, np.inf, (2,), np.float32),
    )


def trajectories():
    """One row an episode, by Hugging Face's datasets, as in its Decision Transformer data."""
    from datasets import Dataset

    data = {
        "observations": [states(e, steps(e)).astype("f4").tolist() for e in EPISODES],
        "actions": [actions(e).astype("f4").tolist() for e in EPISODES],
        "rewards": [rewards(e).tolist() for e in EPISODES],
        "dones": [(last(e) & (e == TERMINAL)).tolist() for e in EPISODES],
    }
    Dataset.from_dict(data).to_parquet(str(FOLDER / "trajectories.parquet"))
    more = {**data, "observations": [states(e, steps(e) + 1).tolist() for e in EPISODES]}
    pyarrow.parquet.write_table(pyarrow.table(more), FOLDER / "trajectories_and_last.parquet", data_page_version="2.0")


def lists():
    """One row a step with vectors: of any length and of a fixed one; small pages, so that lists cross them."""
    rows = lambda function: np.concatenate([function(e) for e in EPISODES])
    observations, following = rows(lambda e: states(e, steps(e))), rows(lambda e: states(e, steps(e) + 1)[1:])
    table = pyarrow.table(
        {
            "episode": rows(lambda e: np.full(steps(e), e)),
            "obs": observations.tolist(),
            "action": pyarrow.FixedSizeListArray.from_arrays(rows(actions).reshape(-1), 2),
            "reward": rows(rewards),
            "terminated": rows(lambda e: last(e) & (e == TERMINAL)),
            "truncated": rows(lambda e: last(e) & (e != TERMINAL)),
            "next_obs": following.tolist(),
        }
    )
    pyarrow.parquet.write_table(table, FOLDER / "lists.parquet", data_page_size=64, write_batch_size=4)
    pyarrow.feather.write_feather(table, FOLDER / "lists.arrow", compression="uncompressed", chunksize=10)
    pyarrow.feather.write_feather(table, FOLDER / "lz4.arrow", compression="lz4")
    ragged = pyarrow.table({"obs": [[1.0, 2.0], [1.0]], "action": [[0.0], [1.0]], "reward": [0.0, 1.0]})
    pyarrow.parquet.write_table(ragged, FOLDER / "ragged.parquet")
    hole = pyarrow.table({"obs": [[1.0, None], [1.0, 2.0]], "action": [[0.0], [1.0]], "reward": [0.0, 1.0]})
    pyarrow.parquet.write_table(hole, FOLDER / "hole.parquet")


def stacks():
    """NPZ with arrays [episodes, steps, width], filled up and with lengths; without rewards; as `imitation` keeps trajectories."""
    longest = max(map(steps, EPISODES))
    fill = lambda array, count: np.concatenate([array, np.repeat(array[-1:], count - len(array), 0)])
    stack = lambda function, count=longest: np.stack([fill(function(e), count) for e in EPISODES])
    arrays = {
        "observations": stack(lambda e: states(e, steps(e) + 1), longest + 1),
        "actions": stack(actions).astype("f4"),
        "lengths": np.array([steps(e) for e in EPISODES]),
        "terminals": stack(lambda e: last(e) & (e == TERMINAL)),
    }
    np.savez(FOLDER / "stack.npz", **arrays, rewards=stack(rewards))
    np.savez(FOLDER / "stack_without_rewards.npz", **arrays)
    trajectories = {
        "obs": np.concatenate([states(e, steps(e) + 1) for e in EPISODES]).astype("f4"),
        "acts": np.concatenate([actions(e) for e in EPISODES]).astype("f4"),
        "rews": np.concatenate([rewards(e) for e in EPISODES]),
        "infos": np.array([{}] * sum(map(steps, EPISODES))),
        "indices": np.cumsum([steps(e) for e in EPISODES[:-1]]),
        "terminal": np.array([e == TERMINAL for e in EPISODES]),
    }
    np.savez_compressed(FOLDER / "imitation.npz", **trajectories)


def demonstrations():
    """HDF5 as robomimic has it, with observations in parts, and as ManiSkill has it."""
    import h5py

    with h5py.File(FOLDER / "robomimic.hdf5", "w") as f:
        data = f.create_group("data")
        data.attrs["total"] = sum(map(steps, EPISODES))
        for e in EPISODES:
            demo = data.create_group(f"demo_{e}")
            demo.attrs["num_samples"] = steps(e)
            all_states = states(e, steps(e) + 1)
            for group, rows in [("obs", all_states[:-1]), ("next_obs", all_states[1:])]:
                demo[f"{group}/object"] = rows[:, 1:]
                demo[f"{group}/robot0_eef_pos"] = rows[:, :1]
            demo["actions"], demo["rewards"] = actions(e), rewards(e)
            demo["dones"] = (last(e) & (e == TERMINAL)).astype("i8")
            demo["states"] = np.zeros((steps(e), 5))
    with h5py.File(FOLDER / "maniskill.h5", "w") as f:
        for e in EPISODES:
            group = f.create_group(f"traj_{e}")
            group["obs"], group["actions"] = states(e, steps(e) + 1).astype("f4"), actions(e).astype("f4")
            group["rewards"] = rewards(e).astype("f4")
            group["terminated"], group["truncated"] = last(e) & (e == TERMINAL), last(e) & (e != TERMINAL)
            group["success"] = np.zeros(steps(e), bool)


if __name__ == "__main__":
    if sys.argv[1:] == ["v21"]:
        lerobot("lerobot_v21")
    else:
        lerobot("lerobot_v3")
        minari("parquet")
        minari("arrow")
        trajectories()
        lists()
        stacks()
        demonstrations()
