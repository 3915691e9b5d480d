"""Writes svgd.json: gradients of the likelihood, SVGD directions and Adam steps by PyTorch's autograd, in float64.

    pip install torch==2.15.0 && python make_svgd.py > svgd.json

Parameters lie as in hambo: per particle and layer the weights [inputs, outputs], then the biases.
"""
import json
import math
import statistics

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

PARTICLES, WIDTHS, DIMS, ROWS, FLOOR = 4, [3, 5, 4, 4], 2, 7, 1e-3
PRIOR, SCALE = 0.3, 2.5  # large, so that no term hides behind another
RATE, STEPS = 0.01, 8
PARAMETERS = sum(i * o + o for i, o in zip(WIDTHS, WIDTHS[1:]))


def single(tensor):
    """Numbers that hambo can read exactly."""
    return tensor.float().double()


theta0 = single(0.5 * torch.randn(PARTICLES, PARAMETERS))
x = single(torch.randn(ROWS, WIDTHS[0]))
y = single(torch.randn(ROWS, DIMS))


def network(theta, x):
    at = 0
    for layer, (i, o) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        weights, bias = theta[at:at + i * o].reshape(i, o), theta[at + i * o:at + i * o + o]
        at += i * o + o
        x = x @ weights + bias
        if layer + 2 < len(WIDTHS):
            x = torch.relu(x)
    return x


def nll(theta):
    out = network(theta, x)
    std = torch.nn.functional.softplus(out[:, DIMS:]) + FLOOR
    return -torch.distributions.Normal(out[:, :DIMS], std).log_prob(y).sum(1).mean()


def nll_gradients(theta):
    theta = theta.detach().requires_grad_()
    losses = torch.stack([nll(t) for t in theta])
    losses.sum().backward()
    return losses.detach(), theta.grad


def length_scale(kernel, theta):
    if kernel == "rbf":
        return 10.0
    pairs = [float((theta[i] - theta[j]).square().sum()) for i in range(len(theta)) for j in range(i)]
    return statistics.median(pairs) / (2 * math.log(len(theta)))


def direction(kernel, theta):
    """-phi of the paper's update, with the kernel differentiated by autograd."""
    _, gradient = nll_gradients(theta)
    theta = theta.detach()
    prior = torch.distributions.Normal(0.0, 1.0)
    variable = theta.clone().requires_grad_()
    prior_score, = torch.autograd.grad(prior.log_prob(variable).sum(), variable)
    score = -SCALE * gradient + PRIOR * prior_score
    if kernel == "none" or len(theta) == 1:
        return -score
    scale = length_scale(kernel, theta)
    phi = torch.zeros_like(theta)
    for i in range(len(theta)):
        for j in range(len(theta)):
            other = theta[j].clone().requires_grad_()
            k = torch.exp(-(other - theta[i]).square().sum() / (2 * scale))
            repulsion, = torch.autograd.grad(k, other)
            phi[i] += (k.detach() * score[j] + repulsion) / len(theta)
    return -phi


def train(kernel, cosine, particles=PARTICLES):
    theta = theta0[:particles].clone().requires_grad_()
    adam = torch.optim.Adam([theta], lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, T_max=STEPS) if cosine else None
    for _ in range(STEPS):
        theta.grad = direction(kernel, theta)
        adam.step()
        if schedule:
            schedule.step()
    return theta.detach()


def numbers(tensor):
    return [float(f"{v:.9g}") for v in tensor.flatten().tolist()]


losses, gradient = nll_gradients(theta0)
cases = []
for kernel in ["rbf", "median", "none"]:
    for particles in [1, PARTICLES]:
        cases.append({
            "kernel": kernel,
            "particles": particles,
            "direction": numbers(direction(kernel, theta0[:particles])),
            "constant": numbers(train(kernel, False, particles)),
            "cosine": numbers(train(kernel, True, particles)),
        })
print(json.dumps({
    "torch": torch.__version__,
    "widths": WIDTHS, "floor": FLOOR, "prior": PRIOR, "scale": SCALE, "rate": RATE, "steps": STEPS,
    "params": numbers(theta0), "x": numbers(x), "y": numbers(y),
    "losses": numbers(losses), "gradient": numbers(gradient),
    "cases": cases,
}).replace('{"kernel"', '\n{"kernel"'))
