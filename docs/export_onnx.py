"""Exports a policy to ONNX, as one file that `hambo` reads.

A Stable-Baselines3 agent (`pip install stable-baselines3 sb3-contrib onnx onnxscript`):

    python export_onnx.py sac best_model.zip policy.onnx [--vecnormalize vecnormalize.pkl]

The graph does what `predict(deterministic=True)` does, from the raw observation to the action that the environment gets:
normalization, network, squashing, scaling, clipping. (hambo also reads the .zip itself; sampling with `--stochastic` is
possible only from there, since a graph holds one action for an observation, not a distribution.)

A TorchScript file (`torch.jit.save`), for observations of N numbers (`pip install torch onnx onnxscript`):

    python export_onnx.py torchscript policy.pt policy.onnx --observations N

An algorithm of d3rlpy (.d3), with its scalers:

    python export_onnx.py d3rlpy model.d3 policy.onnx

Any module of torch (CleanRL, TD3, rsl_rl: make it, `load_state_dict`, and give what computes the action) that maps observations [batch, n] to actions [batch, m]:

    from export_onnx import export
    export(module, n, "policy.onnx")

Plain MLPs run in hambo's own engine: linear layers with ReLU, tanh or sigmoid between them, constants added or multiplied,
limits (clamp) at the start and at the end, tanh at the end. Any other graph needs hambo built with ONNX Runtime.
"""

import argparse
import pickle
import sys

import onnx
import torch


def export(module, columns, path):
    """Writes `module`, which takes observations [batch, columns], with a batch of any size."""
    program = torch.onnx.export(
        module.eval(),
        (torch.zeros(2, columns),),
        input_names=["observation"],
        output_names=["action"],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        verbose=False,
    )
    model = program.model_proto
    for part in [model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output]:
        part.ClearField("metadata_props")  # where in your folders the code was that made each node
        part.ClearField("doc_string")
    onnx.save(model, path)  # one file, weights within


def export_script(script, columns, path):
    """Writes a TorchScript file, whose program the exporter follows instead of running it."""
    torch.onnx.export(
        torch.jit.load(script, map_location="cpu").eval(),
        (torch.zeros(2, columns),),
        path,
        input_names=["observation"],
        output_names=["action"],
        dynamic_axes={"observation": {0: "batch"}, "action": {0: "batch"}},
        dynamo=False,
    )


class Agent(torch.nn.Module):
    """`predict(deterministic=True)` of an agent of Stable-Baselines3 on vector observations with continuous actions."""

    def __init__(self, model, normalizer=None):
        super().__init__()
        self.policy = model.policy
        self.squash = self.policy.squash_output
        space = model.action_space
        self.register_buffer("low", torch.as_tensor(space.low))
        self.register_buffer("high", torch.as_tensor(space.high))
        self.normalizer = normalizer if normalizer is not None and normalizer.norm_obs else None
        if self.normalizer is not None:
            rms = normalizer.obs_rms
            self.register_buffer("mean", torch.as_tensor(rms.mean, dtype=torch.float64))
            self.register_buffer("std", torch.as_tensor((rms.var + normalizer.epsilon) ** 0.5, dtype=torch.float64))

    def forward(self, observation):
        if self.normalizer is not None:  # in float64, as VecNormalize does
            clip = float(self.normalizer.clip_obs)
            observation = torch.clamp((observation.double() - self.mean) / self.std, -clip, clip).float()
        action = self.raw(torch.flatten(observation, 1))
        if self.squash:
            return self.low + 0.5 * (action + 1.0) * (self.high - self.low)
        return torch.clamp(action, self.low, self.high)

    def raw(self, observation):
        policy = self.policy
        if hasattr(policy, "mlp_extractor"):  # A2C, PPO, TRPO
            action = policy.action_net(policy.mlp_extractor.forward_actor(observation))
            return torch.tanh(action) if self.squash else action
        if hasattr(policy, "action_net"):  # ARS: its network ends in tanh where it squashes
            return policy.action_net(observation)
        actor = policy.actor
        if hasattr(actor, "latent_pi"):  # SAC, TQC
            return torch.tanh(actor.mu(actor.latent_pi(observation)))
        return actor.mu(observation)  # DDPG, TD3: ends in tanh


class Learned(torch.nn.Module):
    """`predict` of an algorithm of d3rlpy with continuous actions."""

    def __init__(self, algorithm):
        super().__init__()
        self.policy = algorithm.impl.policy
        self.observation_scaler, self.action_scaler = algorithm.observation_scaler, algorithm.action_scaler

    def forward(self, observation):
        if self.observation_scaler is not None:
            observation = self.observation_scaler.transform(observation)
        action = self.policy(observation).squashed_mu
        return action if self.action_scaler is None else self.action_scaler.reverse_transform(action)


def stand_in_for_gym():
    """Agents saved before Stable-Baselines3 2.0 name `gym`, whose spaces gymnasium has as well."""
    import gymnasium.spaces

    for name in [name for name in sys.modules if name.split(".")[0] == "gymnasium"]:
        sys.modules.setdefault("gym" + name.removeprefix("gymnasium"), sys.modules[name])


def main():
    parser = argparse.ArgumentParser(description="Agent to ONNX")
    parser.add_argument("algorithm", help="a2c, ppo, sac, td3, ddpg, tqc, trpo, ars of Stable-Baselines3; torchscript; d3rlpy")
    parser.add_argument("agent", help="the .zip, .pt or .d3")
    parser.add_argument("output", help="the .onnx to write")
    parser.add_argument("--vecnormalize", help="its vecnormalize.pkl, if it was trained with one")
    parser.add_argument("--observations", type=int, help="numbers in an observation, for torchscript")
    arguments = parser.parse_args()
    if arguments.algorithm == "torchscript":
        if arguments.observations is None:
            parser.error("torchscript needs --observations N")
        return export_script(arguments.agent, arguments.observations, arguments.output)
    if arguments.algorithm == "d3rlpy":
        import d3rlpy

        algorithm = d3rlpy.load_learnable(arguments.agent)
        return export(Learned(algorithm), algorithm.observation_shape[0], arguments.output)
    import sb3_contrib
    import stable_baselines3

    stand_in_for_gym()
    name = arguments.algorithm.upper()
    algorithm = getattr(stable_baselines3, name, None) or getattr(sb3_contrib, name)
    model = algorithm.load(arguments.agent, device="cpu")
    normalizer = None
    if arguments.vecnormalize:
        with open(arguments.vecnormalize, "rb") as file:  # your own file: loading a pickle runs what is in it
            normalizer = pickle.load(file)
    export(Agent(model, normalizer), model.observation_space.shape[0], arguments.output)


if __name__ == "__main__":
    main()
