"""Sweeps: one worker, several, and Ray with a node that dies give the same digits."""

import os
import threading
import time

import pytest
from conftest import SWING_UP

import hambo

PLAN = f"""
[settings]
horizon = 10
rollouts = 100
method = "ca,ds"
model_config = "model.json"
search_config = "search.json"

[[grid]]
env = "pendulum"
data = ["pend.hdf5"]
policies = ["{SWING_UP}", "{SWING_UP},rate=1", "{SWING_UP},rate=2"]
seeds = [1, 2, 3, 4]
"""
JOBS = 12
# The program is another one; who did a job, when and where is not in the table.
OTHER = ["build", "device"]


@pytest.fixture(scope="module")
def plan(place):
    path = place / "plan.toml"
    path.write_text(PLAN)
    return path


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    return hambo.sweep(plan, out=tmp_path_factory.mktemp("whole"), device="cpu")


def same(frame, whole):
    assert len(frame) == 2 * JOBS
    assert (frame.state == "done").all()
    assert frame.drop(columns=OTHER).equals(whole.drop(columns=OTHER))


def test_a_row_is_what_evaluate_says(whole, log, pendulum):
    alone = hambo.evaluate(log, SWING_UP, seed=1, methods=["ca", "ds"], **pendulum)
    first = whole[(whole.policy == SWING_UP) & (whole.seed == 1) & (whole.method == "ca")]
    assert first.lower_bound.item() == alone.lower_bound


def test_several_workers(plan, whole, tmp_path):
    same(hambo.sweep(plan, out=tmp_path / "out", workers=2, device="cpu"), whole)


def test_mistakes_are_told_with_their_line(plan, place, tmp_path):
    wrong = place / "wrong.toml"
    wrong.write_text(plan.read_text().replace("rollouts", "rolouts"))
    for engine in ("local", "ray"):
        with pytest.raises(hambo.Error, match=r"wrong.toml: line 4: rolouts: .*`rollouts`"):
            hambo.sweep(wrong, out=tmp_path / "out", engine=engine)
    with pytest.raises(hambo.SettingError, match="engine = 'dask'"):
        hambo.sweep(plan, out=tmp_path / "out", engine="dask")


@pytest.fixture(scope="module")
def cluster():
    """Three nodes, of which the first is the head and computes nothing."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()


def test_ray_with_a_node_that_dies(cluster, plan, whole, tmp_path):
    """Same digits, nothing lost, nothing counted twice."""
    nodes, told, died = cluster[1], [], []

    def watch(stage, done, total, note):
        told.append(note)
        if done == 2:  # in the middle of the rest
            threading.Thread(target=kill).start()

    def kill():
        time.sleep(0.1)
        cluster[0].remove_node(nodes.pop(), allow_graceful=False)
        died.append(len(told))

    out = tmp_path / "out"
    same(hambo.sweep(plan, out=out, engine="ray", device="cpu", progress=watch), whole)
    assert len(nodes) == 1
    assert died[0] < JOBS, "too fast to be tested"
    assert len(told) == len(set(told)) == JOBS
    assert len(list((out / "done").iterdir())) == JOBS
    # The command and Ray share the folder.
    again = []
    same(hambo.sweep(plan, out=out, engine="ray", progress=lambda *words: again.append(words)), whole)
    same(hambo.sweep(plan, out=out), whole)
    assert again == []


def test_a_job_that_fails_on_ray_is_a_row(cluster, plan, place, tmp_path):
    odd = place / "odd.toml"
    odd.write_text(plan.read_text().replace("rollouts = 100", 'rollouts = 100\nsubsample = "2"').replace("[1, 2, 3, 4]", "[1]"))
    frame = hambo.sweep(odd, out=tmp_path / "out", engine="ray", device="cpu")
    assert (frame.state == "failed").all()
    assert len(frame) == 3
    assert frame.error.str.len().min() > 0
