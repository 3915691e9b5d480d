"""Writes the networks that `tests/networks.rs` reads into `networks/`, each as its own tool saves it, with their actions in
`actions.json`: `python make_torch.py` in this folder. Made with torch 2.15.0, d3rlpy 2.8.1, onnx 1.23.2, numpy 2.4.6.
"""

import json
import pathlib
import pickle

import d3rlpy
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

FOLDER = pathlib.Path(__file__).parent.resolve() / "networks"
FOLDER.mkdir(exist_ok=True)
torch.manual_seed(0)
OBSERVATIONS = torch.randn(5, 3)
ACTIONS = {}


def mlp(activation, width=8, last=2):
    return nn.Sequential(nn.Linear(3, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, last))


def told(name, actions, activation=None, squash=None, output=None):
    hints = {"activation": activation, "squash": squash, "output": output}
    actions = np.asarray(actions.detach() if hasattr(actions, "detach") else actions, dtype=float)
    ACTIONS[name] = {"hints": hints, "actions": actions.tolist()}


class CleanPpo(nn.Module):
    """CleanRL's ppo_continuous_action.py: `torch.save(agent.state_dict(), path)`."""

    def __init__(self):
        super().__init__()
        self.critic = mlp(nn.Tanh, last=1)
        self.actor_mean = mlp(nn.Tanh)
        self.actor_logstd = nn.Parameter(torch.full((1, 2), -0.5))


agent = CleanPpo()
torch.save(agent.state_dict(), FOLDER / "cleanrl_ppo.pt")
told("cleanrl_ppo.pt", agent.actor_mean(OBSERVATIONS), "tanh", "none")


class CleanSac(nn.Module):
    """CleanRL's sac_continuous_action.py: `torch.save((actor.state_dict(), qf1.state_dict(), qf2.state_dict()), path)`."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 8), nn.Linear(8, 8)
        self.fc_mean, self.fc_logstd = nn.Linear(8, 2), nn.Linear(8, 2)
        self.register_buffer("action_scale", torch.tensor([2.0, 1.0]))
        self.register_buffer("action_bias", torch.tensor([0.5, 0.0]))

    def forward(self, x):
        x = torch.relu(self.fc2(torch.relu(self.fc1(x))))
        return torch.tanh(self.fc_mean(x)) * self.action_scale + self.action_bias


actor, q = CleanSac(), nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
torch.save((actor.state_dict(), q.state_dict(), q.state_dict()), FOLDER / "cleanrl_sac.pt")
told("cleanrl_sac.pt", actor(OBSERVATIONS), "relu", "tanh")


class Td3(nn.Module):
    """The actor of the TD3 authors' code: `torch.save(self.actor.state_dict(), filename + "_actor")`."""

    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        return 2.0 * torch.tanh(self.l3(torch.relu(self.l2(torch.relu(self.l1(x))))))


actor = Td3()
torch.save(actor.state_dict(), FOLDER / "td3_actor.pth")
torch.save(actor.state_dict(), FOLDER / "td3_actor_before_1_6.pth", _use_new_zipfile_serialization=False)
for name in ["td3_actor.pth", "td3_actor_before_1_6.pth"]:
    told(name, actor(OBSERVATIONS), "relu", "tanh:2")

# rsl_rl's OnPolicyRunner.save.
model = nn.ModuleDict({"actor": mlp(nn.ELU), "critic": mlp(nn.ELU, last=1)})
model.std = nn.Parameter(torch.ones(2))
optimizer = torch.optim.Adam(model.parameters())
model["actor"](OBSERVATIONS).sum().backward()
optimizer.step()
saved = {"model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict(), "iter": 1, "infos": None}
torch.save(saved, FOLDER / "rsl_rl.pt")
told("rsl_rl.pt", model["actor"](OBSERVATIONS), "elu", "none")

# d3rlpy: the weights alone, and with the settings.
encoder = d3rlpy.models.VectorEncoderFactory([8, 8])
sac = d3rlpy.algos.SACConfig(actor_encoder_factory=encoder, critic_encoder_factory=encoder).create()
sac.create_impl((3,), 2)
sac.save_model(str(FOLDER / "d3rlpy_sac.pt"))
sac.save(str(FOLDER / "d3rlpy_sac.d3"))
for name in ["d3rlpy_sac.pt", "d3rlpy_sac.d3"]:
    told(name, sac.predict(OBSERVATIONS.numpy()), "relu", "tanh")
scaled = d3rlpy.algos.SACConfig(
    actor_encoder_factory=encoder,
    critic_encoder_factory=encoder,
    observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(mean=np.ones(3), std=np.ones(3)),
).create()
scaled.create_impl((3,), 2)
scaled.save(str(FOLDER / "refused_scaler.d3"))

# The DOPE benchmark: a pickle of arrays, in float64 where numpy makes them so.
weights = {}
x = OBSERVATIONS.numpy().astype("f8")
for name, (outputs, inputs) in [("fc0", (8, 3)), ("fc1", (8, 8)), ("last_fc", (2, 8)), ("last_fc_log_std", (2, 8))]:
    weights[f"{name}/weight"] = np.random.default_rng(len(name)).normal(size=(outputs, inputs)).astype("f4")
    weights[f"{name}/bias"] = np.random.default_rng(inputs).normal(size=outputs).astype("f4")
for name in ["fc0", "fc1"]:
    x = np.maximum(x @ weights[f"{name}/weight"].T + weights[f"{name}/bias"], 0)
x = np.tanh(x @ weights["last_fc/weight"].T + weights["last_fc/bias"])
weights |= {"nonlinearity": "relu", "output_distribution": "tanh_gaussian"}
(FOLDER / "dope.pkl").write_bytes(pickle.dumps(weights, protocol=4))
told("dope.pkl", x)

# What is refused.
torch.jit.script(Td3()).save(str(FOLDER / "refused_torchscript.pt"))
torch.save(Td3(), FOLDER / "refused_module.pt")
torch.save(nn.ModuleDict({"actor": nn.LSTM(3, 2)}).state_dict(), FOLDER / "refused_lstm.pt")
torch.save(nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 2)).state_dict(), FOLDER / "refused_norm.pt")
saved["obs_norm_state_dict"] = {"_mean": torch.ones(1, 3), "_std": torch.ones(1, 3)}  # rsl_rl's, with empirical_normalization
torch.save(saved, FOLDER / "refused_normalizer.pt")
torch.save(nn.ModuleDict({"encoder": nn.Linear(3, 3), "actor": nn.Linear(3, 2)}).state_dict(), FOLDER / "refused_encoder.pt")
torch.save({"a": nn.Linear(3, 8).state_dict(), "b": nn.Linear(3, 2).state_dict()}, FOLDER / "refused_chain.pt")


def graph(name, kind, outputs, extra=()):
    """A graph of two layers in ONNX, with `outputs` after the first."""
    rng = np.random.default_rng(1)
    dtype = {TensorProto.FLOAT: "f4", TensorProto.FLOAT16: "f2"}[kind]
    w = [rng.normal(size=s).astype(dtype) for s in [(3, 8), (8,), (8, 2), (2,)]]
    nodes = [
        helper.make_node("Gemm", ["observation", "w0", "b0"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("Gemm", ["t", "w1", "b1"], [outputs[0]]),
        *[helper.make_node("Neg", [outputs[0]], [other]) for other in outputs[1:]],
        *extra,
    ]
    port = lambda name, width: helper.make_tensor_value_info(name, kind, ["batch", width])
    made = helper.make_graph(
        nodes,
        "policy",
        [port("observation", 3)],
        [port(name, 2) for name in reversed(outputs)],
        [numpy_helper.from_array(a, n) for a, n in zip(w, ["w0", "b0", "w1", "b1"])],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), FOLDER / name)
    w = [a.astype("f8") for a in w]
    return np.tanh(OBSERVATIONS.numpy() @ w[0] + w[1]) @ w[2] + w[3]


told("float16.onnx", graph("float16.onnx", TensorProto.FLOAT16, ["action"]))
agents = graph("ml_agents.onnx", TensorProto.FLOAT, ["deterministic_continuous_actions", "continuous_actions"])
told("ml_agents.onnx", agents)
told("two.onnx", -graph("two.onnx", TensorProto.FLOAT, ["first", "second"]), output="second")
lstm = helper.make_node("LSTM", ["action", "w", "r"], ["y"], hidden_size=2)
graph("refused_lstm.onnx", TensorProto.FLOAT, ["action"], [lstm])

content = {"observations": OBSERVATIONS.tolist(), "files": ACTIONS}
(FOLDER / "actions.json").write_text(json.dumps(content, indent=1))
