"""ONNX graphs for tests/onnx.rs: pip install stable-baselines3 sb3-contrib onnx onnxscript onnxruntime h5py

    python make_onnx.py                   # onnx/*.onnx beside this script: the small agents, and graphs of other kinds
    python make_onnx.py ASSETS FOLDER     # every agent in ASSETS/sb3, with 1000 observations and the actions of
                                          # Stable-Baselines3 in FOLDER/actions.json; HAMBO_ONNX=FOLDER for the test

What the small agents do is in sb3.json, by make_sb3.py; what the other graphs do is in onnx/actions.json, by ONNX Runtime.
"""

import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parents[3] / "docs")]
import make_sb3  # noqa: E402
from export_onnx import Agent, export  # noqa: E402


def load_small(path):
    """make_sb3.py left out of these agents what `load` needs beside the weights."""
    model = make_sb3.SMALL[path.parent.name](make_sb3.DummyVecEnv([make_sb3.Uneven]))
    with zipfile.ZipFile(path) as archive:
        model.policy.load_state_dict(torch.load(io.BytesIO(archive.read("policy.pth"))))
    return model


def small_agents(folder):
    for path in sorted(HERE.glob("agents/*/agent.zip")):
        kind = path.parent.name
        model = load_small(path)
        pickled = path.parent / "vecnormalize.pkl"
        normalizer = make_sb3.Unpickler(pickled.open("rb")).load() if pickled.exists() else None
        export(Agent(model, normalizer), model.observation_space.shape[0], folder / f"{kind}.onnx")


def write(path, nodes, weights, shape=("batch", 3), actions=2, opset=20, outputs=("action",)):
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, (shape[0], actions)) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def other_graphs(folder):
    rng = np.random.default_rng(3)
    f = lambda *shape: (0.7 * rng.normal(size=shape)).astype(np.float32)
    node = helper.make_node
    layers = {"w0": f(3, 8), "b0": f(8), "w1": f(8, 2), "b1": f(2)}

    # MatMul + Add, batch of 1.
    mlp = [node("MatMul", ["x", "w0"], ["m"]), node("Add", ["b0", "m"], ["h"]), node("Tanh", ["h"], ["t"]),
           node("MatMul", ["t", "w1"], ["n"]), node("Add", ["n", "b1"], ["action"])]
    write(folder / "matmul_batch_of_one.onnx", mlp, layers, shape=(1, 3))

    # Means far from 0 that would be lost in f32 when folded into the weights; three outputs of which one is the action.
    far = {"mean": np.array([1e4, -2e5, 3.0], np.float32), "std": np.array([0.5, 2.0, 0.1], np.float32), **layers}
    nodes = [node("Sub", ["x", "mean"], ["c"]), node("Div", ["c", "std"], ["d"]),
             node("Gemm", ["d", "w0", "b0"], ["g"], alpha=0.5, beta=2.0), node("Relu", ["g"], ["r"]),
             node("Gemm", ["r", "w1", "b1"], ["u"]), node("Tanh", ["u"], ["t"]),
             node("Mul", ["t", "scale"], ["s"]), node("Add", ["s", "shift"], ["action"]),
             node("Erf", ["u"], ["value"]), node("Exp", ["u"], ["log_prob"])]
    far |= {"scale": np.array([2.0, -0.5], np.float32), "shift": np.array([0.1, 1.0], np.float32)}
    write(folder / "far_means_three_outputs.onnx", nodes, far, outputs=("value", "action", "log_prob"))

    # Columns sliced and joined, a residual connection on one layer, sigmoid, limits as Min and Max.
    nodes = [node("Slice", ["x", "one", "three", "one"], ["x12"]), node("Gather", ["x", "zero"], ["x0"], axis=1),
             node("Concat", ["x12", "x0"], ["p"], axis=-1), node("Add", ["p", "x"], ["q"]),
             node("Gemm", ["q", "w0", "b0"], ["g"]), node("Sigmoid", ["g"], ["s"]),
             node("Gemm", ["s", "w1", "b1"], ["u"]), node("Neg", ["u"], ["v"]),
             node("Max", ["v", "low"], ["l"]), node("Min", ["l", "high"], ["action"])]
    write(folder / "slices_sigmoid_min_max.onnx", nodes, layers | {
        "zero": np.array([0]), "one": np.array([1]), "three": np.array([3]),
        "low": np.float32(-0.8), "high": np.array([[0.5, 0.9]], np.float32)})

    # Shapes computed in the graph, a transposed weight, batch normalization, old clip with attributes.
    nodes = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "first"], ["b"], axis=0),
             node("Unsqueeze", ["b"], ["b1d"], axes=[0]), node("Concat", ["b1d", "rest"], ["to"], axis=0),
             node("Reshape", ["x", "to"], ["y"]), node("Transpose", ["w0t"], ["w0"], perm=[1, 0]),
             node("MatMul", ["y", "w0"], ["m"]),
             node("BatchNormalization", ["m", "g", "b0", "mu", "var"], ["h"], epsilon=1e-3),
             node("Relu", ["h"], ["r"]), node("Gemm", ["r", "w1t", "b1"], ["u"], transB=1),
             node("Clip", ["u"], ["action"], min=-1.0, max=1.0)]
    write(folder / "shapes_batch_norm.onnx", nodes, {
        "first": np.array(0), "rest": np.array([-1]), "w0t": f(8, 3), "g": f(8), "b0": f(8), "mu": f(8),
        "var": np.abs(f(8)) + 0.1, "w1t": f(2, 8), "b1": f(2)}, opset=9)

    nodes = [node("Gemm", ["x", "w0", "b0"], ["g"]), node("Elu", ["g"], ["e"]), node("Gemm", ["e", "w1", "b1"], ["action"])]
    write(folder / "elu.onnx", nodes, layers)
    external = onnx.load(folder / "elu.onnx")
    onnx.save(external, folder / "external.onnx", save_as_external_data=True, location="external.bin", size_threshold=0)
    (folder / "external.bin").unlink()

    # No plain MLP.
    nodes = [node("Gemm", ["x", "w0", "b0"], ["g"]), node("Softmax", ["g"], ["e"], axis=-1), node("Gemm", ["e", "w1", "b1"], ["action"])]
    write(folder / "other_softmax_batch_of_one.onnx", nodes, layers, shape=(1, 3))


def actions_by_runtime(path):
    session = onnxruntime.InferenceSession(path)
    rng = np.random.default_rng(5)
    observations = rng.normal(size=(32, 3)).astype(np.float32) * 2
    if "far_means" in path.name:
        observations = observations + np.array([1e4, -2e5, 3.0], np.float32)
    run = lambda x: session.run(["action"], {"x": x})[0]
    single = session.get_inputs()[0].shape[0] == 1
    actions = np.concatenate([run(x[None]) for x in observations]) if single else run(observations)
    return case(observations, actions)


def case(observations, actions):
    return {"observations": make_sb3.rows(observations), "actions": make_sb3.rows(actions)}


def random_observations(space, mean=None, std=None, n=1000):
    """Uniform in the space where it has bounds, else around what the agent has seen. (Far outside of it PyTorch's own
    float32 is off by more than 1e-5: 1.7e-5 for DDPG on Pendulum at observations of 50.)"""
    rng = np.random.default_rng(7)
    if np.isfinite(space.low).all() and np.isfinite(space.high).all():
        return rng.uniform(space.low, space.high, (n, *space.shape)).astype(np.float32)
    mean, std = (0.0, 1.0) if mean is None else (mean, std)
    return (mean + std * 2 * rng.normal(size=(n, *space.shape))).astype(np.float32)


def assets(source, folder):
    folder.mkdir(parents=True, exist_ok=True)
    cases = {}
    for path in sorted(source.glob("sb3/*/*/*.zip")):
        algorithm, env = path.parts[-3], path.parts[-2]
        model = make_sb3.load(path, algorithm)
        pickled = path.parent / "vecnormalize.pkl"
        normalizer = make_sb3.Unpickler(pickled.open("rb")).load() if pickled.exists() else None
        normalize, *moments = make_sb3.normalizer(pickled)
        observations = random_observations(model.observation_space, *moments)
        actions = model.predict(normalize(observations), deterministic=True)[0]
        name = f"{algorithm}-{env}.onnx"
        export(Agent(model, normalizer), model.observation_space.shape[0], folder / name)
        cases[name] = case(observations, actions)
    (folder / "actions.json").write_text(json.dumps(cases))


def main():
    if len(sys.argv) == 3:
        return assets(Path(sys.argv[1]), Path(sys.argv[2]))
    folder = HERE / "onnx"
    folder.mkdir(exist_ok=True)
    small_agents(folder)
    other_graphs(folder)
    known = [p for p in sorted(folder.glob("*.onnx")) if p.name != "external.onnx" and not (HERE / "agents" / p.stem).exists()]
    cases = {path.name: actions_by_runtime(path) for path in known}
    (folder / "actions.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
