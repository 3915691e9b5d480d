"""What the small agents do when they sample, by Stable-Baselines3 itself, for tests/sampling.rs.

    python make_sampling.py > sampling.json       # pip install stable-baselines3 sb3-contrib onnx onnxscript onnxruntime

For each agent and some observations: mean and deviation of 20,000 sampled actions as the environment gets them, and the
log-density of one action in each row (in the units of the environment; not where actions are cut at the bounds).
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.append(str(Path(__file__).parent))
import make_sb3  # noqa: E402
from make_onnx import HERE, load_small  # noqa: E402

SAMPLES = 20_000


def distribution(policy, observations):
    if hasattr(policy, "actor"):
        mean, log_std, more = policy.actor.get_action_dist_params(observations)
        return policy.actor.action_dist.proba_distribution(mean, log_std, **more)
    return policy.get_distribution(observations)


def sampled(model, normalize):
    rng = np.random.default_rng(11)
    torch.manual_seed(11)
    observations = rng.normal(size=(4, 3)).astype(np.float32)
    means, stds = [], []
    for observation in observations:
        batch = np.repeat(observation[None], SAMPLES, axis=0)
        if getattr(model, "use_sde", False):
            model.policy.reset_noise(SAMPLES) if not hasattr(model.policy, "actor") else model.policy.actor.reset_noise(SAMPLES)
        actions = model.predict(normalize(batch), deterministic=False)[0].astype(float)
        means.append(actions.mean(0))
        stds.append(actions.std(0))
    space = model.action_space
    inside = rng.uniform(-0.9, 0.9, size=(4, 2)).astype(np.float32)  # of the bounds
    actions = (space.low + 0.5 * (inside + 1) * (space.high - space.low)).astype(np.float32)
    with torch.no_grad():
        found = distribution(model.policy, torch.as_tensor(normalize(observations).astype(np.float32)))
        if model.policy.squash_output:
            log_probs = found.log_prob(torch.as_tensor(inside)) - float(np.log(0.5 * (space.high - space.low)).sum())
        else:
            log_probs = found.log_prob(torch.as_tensor(actions))
    rows = make_sb3.rows
    return {"observations": rows(observations), "means": rows(means), "stds": rows(stds), "actions": rows(actions),
            "log_probs": rows([log_probs.numpy()])[0]}


def main():
    cases = {}
    for kind in ["ppo", "ppo_squash", "sac", "sac_gsde", "tqc"]:
        path = HERE / "agents" / kind / "agent.zip"
        normalize, *_ = make_sb3.normalizer(path.parent / "vecnormalize.pkl")
        cases[kind] = sampled(load_small(path), normalize)
    print(json.dumps(cases))


if __name__ == "__main__":
    main()
