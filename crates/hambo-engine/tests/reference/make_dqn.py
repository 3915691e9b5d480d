"""Writes dqn.json: losses, gradients and parameters of clipped double DQN updates by PyTorch's autograd, in float64.

    pip install torch==2.15.0 && python make_dqn.py > dqn.json

Parameters lie as in hambo: per network and layer the weights [inputs, outputs], then the biases. The networks see
(observation, context).
"""
import json

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

OBSERVATION, CONTEXT, CHOICES, ROWS, HIDDEN = 3, 1, 4, 9, [6, 5]
RATE, DISCOUNT, POLYAK, STEPS = 0.01, 0.9, 0.05, 6
WIDTHS = [OBSERVATION + CONTEXT, *HIDDEN, CHOICES]


def single(tensor):
    """Numbers that hambo can read exactly."""
    return tensor.float().double()


def parameters(widths):
    return sum(i * o + o for i, o in zip(widths, widths[1:]))


def network(theta, widths, x):
    at = 0
    for layer, (i, o) in enumerate(zip(widths, widths[1:])):
        weights, bias = theta[at:at + i * o].reshape(i, o), theta[at + i * o:at + i * o + o]
        at += i * o + o
        x = x @ weights + bias
        if layer + 2 < len(widths):
            x = torch.relu(x)
    return x


networks = single(0.6 * torch.randn(2, parameters(WIDTHS))).requires_grad_()
target_networks = single(networks.detach() + 0.1 * torch.randn_like(networks))
batch = {
    "observations": torch.randn(ROWS, OBSERVATION),
    "contexts": torch.rand(ROWS, CONTEXT),
    "rewards": torch.randn(ROWS, 1),
    "continues": (torch.rand(ROWS, 1) < 0.7).double(),
    "next_observations": torch.randn(ROWS, OBSERVATION),
    "next_contexts": torch.rand(ROWS, CONTEXT),
}
batch = {name: single(value) for name, value in batch.items()}
choices = torch.randint(CHOICES, (ROWS, 1))
first = {"networks": networks.flatten().tolist(), "target_networks": target_networks.flatten().tolist()}


def values(thetas, observations, contexts):
    x = torch.cat([observations, contexts], dim=1)
    return torch.stack([network(theta, WIDTHS, x) for theta in thetas])


optimizer = torch.optim.Adam([networks], lr=RATE)
steps = []
for _ in range(STEPS):
    with torch.no_grad():
        seen = batch["next_observations"], batch["next_contexts"]
        best = values(networks, *seen)[0].argmax(1, keepdim=True)
        twins = values(target_networks, *seen)
        value = torch.minimum(twins[0].gather(1, best), twins[1].gather(1, best))
        y = batch["rewards"] + DISCOUNT * batch["continues"] * value
    chosen = values(networks, batch["observations"], batch["contexts"]).gather(2, choices.expand(2, -1, -1))
    loss = (chosen - y).square().mean((1, 2)).sum()
    networks.grad = torch.autograd.grad(loss, networks)[0]
    optimizer.step()
    with torch.no_grad():
        target_networks.lerp_(networks, POLYAK)
    steps.append({
        "loss": loss.item(),
        "gradient": networks.grad.flatten().tolist(),
        "networks": networks.flatten().tolist(),
        "target_networks": target_networks.flatten().tolist(),
    })

print(json.dumps({
    "widths": [OBSERVATION, CONTEXT],
    "choices": CHOICES,
    "hidden": HIDDEN,
    "rows": ROWS,
    "learning_rate": RATE,
    "discount": DISCOUNT,
    "polyak": POLYAK,
    "batch": {name: value.flatten().tolist() for name, value in batch.items()} | {"actions": choices.flatten().tolist()},
    "first": first,
    "steps": steps,
}))
