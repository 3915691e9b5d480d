"""Writes sac.json: losses, gradients and parameters of Soft Actor-Critic updates by PyTorch's autograd, in float64.

    pip install torch==2.15.0 && python make_sac.py > sac.json

Parameters lie as in hambo: per network and layer the weights [inputs, outputs], then the biases. The critics see
(observation, context, action).
"""
import json
import math

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

OBSERVATION, CONTEXT, ACTION, ROWS, HIDDEN = 3, 1, 2, 9, [6, 5]
RATE, TEMPERATURE_RATE, TEMPERATURE, DISCOUNT, POLYAK, STEPS = 0.01, 0.003, 0.3, 0.9, 0.05, 6
ACTOR = [OBSERVATION, *HIDDEN, 2 * ACTION]
CRITIC = [OBSERVATION + CONTEXT + ACTION, *HIDDEN, 1]


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


actor = single(0.6 * torch.randn(parameters(ACTOR))).requires_grad_()
critics = single(0.6 * torch.randn(2, parameters(CRITIC))).requires_grad_()
actor.data[-1] = 2.5  # a log standard deviation that is mostly above its limit
target_critics = single(critics.detach() + 0.1 * torch.randn_like(critics))
log_temperature = torch.tensor(math.log(TEMPERATURE), requires_grad=True)
batch = {
    "observations": torch.randn(ROWS, OBSERVATION),
    "contexts": torch.rand(ROWS, CONTEXT),
    "actions": torch.tanh(torch.randn(ROWS, ACTION)),
    "rewards": torch.randn(ROWS, 1),
    "continues": (torch.rand(ROWS, 1) < 0.7).double(),
    "next_observations": torch.randn(ROWS, OBSERVATION),
    "next_contexts": torch.rand(ROWS, CONTEXT),
    "noise": torch.randn(ROWS, ACTION),
    "next_noise": torch.randn(ROWS, ACTION),
}
batch = {name: single(value) for name, value in batch.items()}
first = {
    "actor": actor.tolist(),
    "critics": critics.flatten().tolist(),
    "target_critics": target_critics.flatten().tolist(),
}


def act(observations, noise):
    mean, log_std = network(actor, ACTOR, observations).chunk(2, dim=1)
    std = log_std.clamp(-20, 2).exp()
    raw = mean + std * noise
    normal = torch.distributions.Normal(mean, std).log_prob(raw)
    actions = raw.tanh()
    return actions, (normal - torch.log1p(-actions**2)).sum(1, keepdim=True)


def values(thetas, observations, contexts, actions):
    x = torch.cat([observations, contexts, actions], dim=1)
    return torch.stack([network(theta, CRITIC, x) for theta in thetas])


optimizers = [
    torch.optim.Adam([critics], lr=RATE),
    torch.optim.Adam([actor], lr=RATE),
    torch.optim.Adam([log_temperature], lr=TEMPERATURE_RATE),
]


def descend(loss, parameter, optimizer):
    parameter.grad = torch.autograd.grad(loss, parameter)[0]
    optimizer.step()
    return parameter.grad.flatten().tolist()


steps = []
for _ in range(STEPS):
    temperature = log_temperature.exp().detach()
    with torch.no_grad():
        actions, log_prob = act(batch["next_observations"], batch["next_noise"])
        value = values(target_critics, batch["next_observations"], batch["next_contexts"], actions).amin(0)
        y = batch["rewards"] + DISCOUNT * batch["continues"] * (value - temperature * log_prob)
    errors = values(critics, batch["observations"], batch["contexts"], batch["actions"]) - y
    critic_loss = errors.square().mean((1, 2)).sum()
    critic_gradient = descend(critic_loss, critics, optimizers[0])

    actions, log_prob = act(batch["observations"], batch["noise"])
    value = values(critics, batch["observations"], batch["contexts"], actions).amin(0)
    actor_loss = (temperature * log_prob - value).mean()
    actor_gradient = descend(actor_loss, actor, optimizers[1])

    temperature_loss = -log_temperature.exp() * (log_prob.detach().mean() - ACTION)
    descend(temperature_loss, log_temperature, optimizers[2])
    with torch.no_grad():
        target_critics.lerp_(critics, POLYAK)
    steps.append({
        "critic_loss": critic_loss.item(),
        "actor_loss": actor_loss.item(),
        "entropy": -log_prob.mean().item(),
        "critic_gradient": critic_gradient,
        "actor_gradient": actor_gradient,
        "actor": actor.tolist(),
        "critics": critics.flatten().tolist(),
        "target_critics": target_critics.flatten().tolist(),
        "log_temperature": log_temperature.item(),
    })

print(json.dumps({
    "widths": [OBSERVATION, CONTEXT, ACTION],
    "hidden": HIDDEN,
    "rows": ROWS,
    "learning_rate": RATE,
    "temperature_rate": TEMPERATURE_RATE,
    "temperature": TEMPERATURE,
    "discount": DISCOUNT,
    "polyak": POLYAK,
    "batch": {name: value.flatten().tolist() for name, value in batch.items()},
    "first": first,
    "steps": steps,
}))
