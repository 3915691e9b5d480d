"""`hambo learn`: its curve, and its policy in ONNX Runtime. (With so small a model the policy is no good: see docs/learn.md.)"""

import csv
import json
import struct

import numpy
import pytest
from conftest import ROOT

MODEL = '{"folds": 1, "hidden": [64, 64], "steps": 3000, "activation": "tanh"}'
LEARN = '{"checkpoints": 4, "candidates": 1, "measured": 200, "hidden": [64, 64]}'
SEARCH = '{"hidden": [32, 32], "iterations": 10, "restarts": 1, "batch": 16, "evaluation": 100}'
LINE = "learn --data mediocre.hdf5 --env pendulum --model-config model.json --learn-config learn.json --search-config search.json"


@pytest.fixture(scope="module")
def learned(hambo):
    mediocre = ROOT / "checkpoints/pendulum/mediocre.safetensors"
    hambo.run(f"collect --env pendulum --policy {mediocre} --noise 0.3 --steps 10000 --out mediocre.hdf5")
    for name, text in (("model.json", MODEL), ("learn.json", LEARN), ("search.json", SEARCH)):
        (hambo.folder / name).write_text(text)
    result = hambo.json(f"{LINE} --adversary ca --steps 8000 --rollouts 1000 --out learned")
    return result, hambo.folder / "learned"


def test_the_curve_is_of_the_model(learned):
    result, folder = learned
    with open(folder / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [2000, 4000, 6000, 8000]
    assert [float(row["worst"]) for row in rows] == [point["worst"] for point in result["learned"]["curve"]]
    assert all(float(row["gain"]) == pytest.approx(float(row["value"]) - float(row["worst"])) for row in rows)


def test_onnx_runtime_computes_the_same_actions(hambo, learned):
    onnxruntime = pytest.importorskip("onnxruntime")
    _, folder = learned
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    ((given,), (taken,)) = (session.get_inputs(), session.get_outputs())
    assert (given.name, given.shape, taken.name, taken.shape) == ("observation", ["batch", 3], "action", ["batch", 1])
    angles = numpy.linspace(-3, 3, 50)
    states = numpy.stack([numpy.cos(angles), numpy.sin(angles), 2 * angles], axis=1).astype(numpy.float32)
    actions = session.run(None, {"observation": states})[0]
    assert actions.shape == (50, 1) and numpy.abs(actions).max() <= 2 and numpy.ptp(actions) > 1
    assert numpy.abs(actions - own_actions(folder / "policy.safetensors", states)).max() < 1e-4


def own_actions(path, states):
    """The same network by hand, from the file's tensors: ReLU between the layers, tanh into the bounds of ± 2."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])

    def tensor(name):
        start, end = header[name]["data_offsets"]
        return numpy.frombuffer(data[8 + length + start : 8 + length + end], "<f4").reshape(header[name]["shape"])

    layers = sum(1 for name in header if name.startswith("layers.") and name.endswith(".weight"))
    for i in range(layers):
        states = states @ tensor(f"layers.{i}.weight").T + tensor(f"layers.{i}.bias")
        states = numpy.maximum(states, 0) if i + 1 < layers else states
    return 2 * numpy.tanh(states)
