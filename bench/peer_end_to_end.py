"""A whole evaluation of `builtin:swing-up` on Pendulum in PyTorch, stage by stage: the same work as `hambo-bench --work
end-to-end`, in the same sizes and numbers of steps. Prints one JSON line with the seconds of every stage.

    python bench/peer_end_to_end.py --data bench/data/pendulum-10000.hdf5 --methods ca,da1

Fit: SVGD steps on five networks 4 → 256 × 4 → 6, the held-out likelihood every 200 steps, every particle kept at its best.
Calibrate: τ per dimension on held-out rows. CA: rounds of 1000 hallucinated episodes of 200 steps and 1000 SAC updates on
1024 rows, each round's adversary measured on 250 episodes, then 10,000 episodes under the lowest. DA1: the same with clipped
double DQN.
"""

import argparse
import json
import math
import time

START = time.perf_counter()  # loading PyTorch is part of the work, as starting up is of hambo's

import h5py
import numpy as np
import torch
import torch.nn.functional as F

import measure
from peer_torch import act, adam, as_leaves, descend, ensemble_heads, negative_log_likelihood, svgd_direction

PARTICLES, STATE, ACTION, HIDDEN = 5, 3, 1, 256
BATCH, CHECK_EVERY, PRIOR_PRECISION = 256, 200, 1e-4
HORIZON, EPISODES, UPDATES, ROWS, REMEMBERED = 200, 1000, 1000, 1024, 5
MEASURED, ROLLOUTS, BETA = 250, 10_000, 1.0
LEARNING_RATE, TEMPERATURE_RATE, TEMPERATURE, POLYAK, DQN_POLYAK = 1e-3, 5e-5, 0.02, 0.005, 0.02
LEVELS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99]


class Stages:
    """Seconds of every stage."""

    def __init__(self, device):
        self.device, self.seconds, self.last = device, {}, START

    def end(self, name):
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self.last
        self.last = now


def repeated(step, device, graph):
    """A function that does `step` a number of times; with `graph` it is captured once and replayed."""
    if not graph:
        return lambda times: [step() for _ in range(times)]
    captured = []

    def repeat(times):
        if not captured:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            captured.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(captured[0]):
                step()
            times -= 3
        for _ in range(times):
            captured[0].replay()

    return repeat


# Data and model.


def read(path, device):
    """States, actions and next states, and rows to train on, to validate on and to calibrate on: whole episodes."""
    with h5py.File(path) as file:
        observations, actions = file["observations"][:], file["actions"][:]
        ends = file["timeouts"][:].astype(bool) | file["terminals"][:].astype(bool)
        if "next_observations" in file:
            next_observations = file["next_observations"][:]
        else:
            next_observations = np.concatenate([observations[1:], observations[-1:]])
            ends[-1] = True
    length = int(np.flatnonzero(ends)[0]) + 1
    order = np.random.default_rng(0).permutation(len(observations) // length)
    held_out = max(1, round(0.1 * len(order)))
    rows = lambda episodes: np.concatenate([np.arange(e * length, (e + 1) * length) for e in np.sort(episodes)])
    split = [rows(order[2 * held_out :]), rows(order[:held_out]), rows(order[held_out : 2 * held_out])]
    tensors = [torch.tensor(a, dtype=torch.float32, device=device) for a in (observations, actions, next_observations)]
    return tensors, [torch.tensor(r, device=device) for r in split]


class Model:
    """Five networks that predict the standardized change of the state, and τ."""

    def __init__(self, tensors, split, device):
        states, actions, next_states = tensors
        inputs, targets = torch.cat([states, actions], 1), next_states - states
        train = split[0]
        self.input_mean, self.input_std = inputs[train].mean(0), inputs[train].std(0)
        self.target_mean, self.target_std = targets[train].mean(0), targets[train].std(0)
        self.inputs = (inputs - self.input_mean) / self.input_std
        self.targets = (targets - self.target_mean) / self.target_std
        self.split, self.device = split, device
        sizes = [STATE + ACTION, HIDDEN, HIDDEN, HIDDEN, HIDDEN, 2 * STATE]
        shapes = list(zip(sizes, sizes[1:]))
        self.particles = torch.empty(PARTICLES, sum(i * o + o for i, o in shapes), device=device)
        self.layers, start = [], 0
        for inputs_, outputs in shapes:
            bound, stop = 1 / math.sqrt(inputs_), start + inputs_ * outputs
            self.particles[:, start : stop + outputs].uniform_(-bound, bound)
            weights = self.particles[:, start:stop].view(PARTICLES, inputs_, outputs)
            biases = self.particles[:, stop : stop + outputs].unsqueeze(1)
            self.layers.append((weights, biases))
            start = stop + outputs
        self.tau = torch.ones(STATE, device=device)

    def train(self, steps, graph):
        train, validation = self.split[0], self.split[1]
        x, y = self.inputs[train].contiguous(), self.targets[train].contiguous()
        held_x, held_y = self.inputs[validation], self.targets[validation]
        leaves = [leaf.requires_grad_() for layer in self.layers for leaf in layer]
        self.particles.grad = torch.zeros_like(self.particles)
        optimizer = adam([self.particles], LEARNING_RATE)
        if graph:
            optimizer.param_groups[0]["lr"] = torch.tensor(LEARNING_RATE, device=self.device)
        done = torch.zeros((), device=self.device)

        def set_rate(step):
            if graph:
                rate = LEARNING_RATE * 0.5 * (1 + torch.cos(math.pi * done / steps))
                optimizer.param_groups[0]["lr"].copy_(rate)
                done.add_(1)
            else:
                optimizer.param_groups[0]["lr"] = LEARNING_RATE * 0.5 * (1 + math.cos(math.pi * step / steps))

        count = [0]

        def step():
            set_rate(count[0])
            count[0] += 1
            rows = torch.randint(len(x), (BATCH,), device=self.device)
            losses = negative_log_likelihood(self.layers, x[rows], y[rows])
            gradients = torch.autograd.grad(losses.sum(), leaves)
            with torch.no_grad():
                gradient = torch.cat([g.flatten(1) for g in gradients], dim=1)
                score = -(gradient + PRIOR_PRECISION * self.particles)
                self.particles.grad.copy_(-svgd_direction(self.particles, score))
            optimizer.step()

        repeat = repeated(step, self.device, graph)
        best, lowest = self.particles.clone(), torch.full((PARTICLES,), math.inf, device=self.device)
        for _ in range(steps // CHECK_EVERY):
            repeat(CHECK_EVERY)
            with torch.no_grad():
                now = negative_log_likelihood(self.layers, held_x, held_y)
                better = now < lowest
                lowest = torch.where(better, now, lowest)
                best = torch.where(better[:, None], self.particles, best)
                if not torch.isfinite(now).all():
                    raise SystemExit("the training diverged")
        with torch.no_grad():
            self.particles.copy_(best)
        self.layers = [(weights.detach(), biases.detach()) for weights, biases in self.layers]

    @torch.no_grad()
    def calibrate(self):
        """τ of each dimension that makes the predicted quantiles hold on held-out rows."""
        rows = self.split[2]
        mean, std = ensemble_heads(self.layers, self.inputs[rows])
        spread = (mean.var(0, unbiased=False) + std.square().mean(0)).sqrt()
        residuals = ((self.targets[rows] - mean.mean(0)) / spread).cpu().numpy().T
        quantiles = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(LEVELS)).numpy()
        tau = []
        for z in residuals:
            ratios = np.concatenate([z / q for q in quantiles if q != 0])
            candidates = np.sort(ratios[ratios > 0])
            shares = np.stack([np.searchsorted(np.sort(z), candidates * q, side="right") for q in quantiles]) / len(z)
            errors = ((shares - np.array(LEVELS)[:, None]) ** 2).mean(0)
            tau.append(candidates[len(errors) - 1 - np.argmin(errors[::-1])])
        self.tau = torch.tensor(np.array(tau), dtype=torch.float32, device=self.device)


# The task.


def initial_states(n, device):
    angle = (torch.rand(n, device=device) * 2 - 1) * math.pi
    return torch.stack([angle.cos(), angle.sin(), torch.rand(n, device=device) * 2 - 1], 1)


def swing_up(s):
    missing = 15 - s[:, 2] ** 2 / 2 - 15 * s[:, 0]
    pump = 0.3 * s[:, 2] * missing
    balance = -(8 * torch.atan2(s[:, 1], s[:, 0]) + 2 * s[:, 2])
    return torch.where(s[:, 0] > 0.7, balance, pump).clamp(-2, 2).unsqueeze(1)


def reward(s, a):
    return -(torch.atan2(s[:, 1], s[:, 0]) ** 2 + 0.1 * s[:, 2] ** 2 + 0.001 * a[:, 0].clamp(-2, 2) ** 2)


class Rollout:
    """Episodes in the model, with an adversary; `record` is called with what a step was."""

    def __init__(self, model, n, choose, record=None, graph=False):
        self.model, self.choose, self.record = model, choose, record
        self.states = torch.zeros(n, STATE, device=model.device)
        self.returns = torch.zeros(n, device=model.device)
        self.time = torch.zeros(1, dtype=torch.long, device=model.device)
        self.repeat = repeated(self.step, model.device, graph)

    @torch.no_grad()
    def run(self, starts):
        self.states.copy_(starts)
        self.returns.zero_()
        self.time.zero_()
        self.repeat(HORIZON)
        return self.returns

    @torch.no_grad()
    def step(self):
        model, s = self.model, self.states
        a = swing_up(s)
        inputs = (torch.cat([s, a], 1) - model.input_mean) / model.input_std
        elapsed = (self.time.float() / HORIZON).expand(len(s), 1)
        mean, std = ensemble_heads(model.layers, inputs)
        change, choice = self.choose(inputs, elapsed, mean, std)
        r = reward(s, a)
        if self.record:
            self.record(self.time, inputs, elapsed, choice, r)
        self.returns.add_(r)
        self.states.copy_(s + model.target_mean + model.target_std * change)
        self.time.add_(1)


def shifted(model, eta, mean, std):
    """A draw from N(μ + β τ σ_e η, σ²_a)."""
    epistemic, aleatoric = mean.var(0, unbiased=False).sqrt(), std.square().mean(0).sqrt()
    return mean.mean(0) + BETA * model.tau * epistemic * eta + aleatoric * torch.randn_like(eta)


class Memory:
    """The latest rounds of episodes, [round, time, episode, …]."""

    def __init__(self, choices, dtype, device):
        room = lambda width, kind=torch.float32: torch.zeros(REMEMBERED, HORIZON, EPISODES, width, dtype=kind, device=device)
        self.inputs, self.elapsed, self.rewards = room(STATE + ACTION), room(1), room(1)
        self.choices = room(choices, dtype)
        self.slot, self.filled = torch.zeros(1, dtype=torch.long, device=device), 0
        self.index = torch.zeros(1, dtype=torch.long, device=device)
        self.scale = torch.ones((), device=device)
        self.count = torch.zeros((), device=device)
        self.device = device

    def record(self, time, inputs, elapsed, choice, r):
        at = self.slot * HORIZON + time
        for column, values in ((self.inputs, inputs), (self.elapsed, elapsed), (self.choices, choice), (self.rewards, r[:, None])):
            column.view(REMEMBERED * HORIZON, *column.shape[2:]).index_copy_(0, at, values.unsqueeze(0))

    def close_round(self):
        self.slot.add_(1).remainder_(REMEMBERED)
        self.filled = min(self.filled + 1, REMEMBERED)
        self.count.fill_(self.filled * HORIZON * EPISODES)
        self.scale.copy_(-1 / self.rewards[: self.filled].std())

    def draw(self):
        """A minibatch; the step after a row is as many rows further as there are episodes."""
        rows = (torch.rand(ROWS, device=self.device) * self.count).long()
        goes_on = (rows // EPISODES) % HORIZON < HORIZON - 1
        following = torch.where(goes_on, rows + EPISODES, rows)
        flat = lambda column: column.view(-1, column.shape[-1])
        take = lambda column, at: flat(column)[at]
        return (
            take(self.inputs, rows), take(self.elapsed, rows), take(self.choices, rows),
            take(self.rewards, rows) * self.scale, goes_on.float().unsqueeze(1),
            take(self.inputs, following), take(self.elapsed, following),
        )


def network(members, sizes, device):
    """Leaves of `members` networks, weights and biases in turn."""
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        bound = 1 / math.sqrt(i)
        uniform = lambda *shape: (torch.rand(*shape, device=device) * 2 - 1) * bound
        shape = (i, o) if members == 1 else (members, i, o)
        layers.append((uniform(*shape), uniform(o) if members == 1 else uniform(members, 1, o)))
    return as_leaves(layers)


def twins(leaves, rows):
    """What both networks say, [network, row, output]."""
    w1, b1, w2, b2, w3, b3 = leaves
    hidden = F.relu(torch.baddbmm(b1, rows.expand(2, -1, -1), w1))
    hidden = F.relu(torch.baddbmm(b2, hidden, w2))
    return torch.baddbmm(b3, hidden, w3)


class Sac:
    """The adversary of CA."""

    def __init__(self, model, graph):
        device = model.device
        self.model = model
        self.actor = network(1, [STATE + ACTION, HIDDEN, HIDDEN, 2 * STATE], device)
        self.critics = network(2, [STATE + ACTION + 1 + STATE, HIDDEN, HIDDEN, 1], device)
        self.targets = [leaf.detach().clone() for leaf in self.critics]
        self.log_alpha = torch.full((), math.log(TEMPERATURE), device=device, requires_grad=True)
        self.optimizers = [
            adam(self.critics, LEARNING_RATE), adam(self.actor, LEARNING_RATE), adam([self.log_alpha], TEMPERATURE_RATE)
        ]
        self.memory = Memory(STATE, torch.float32, device)
        self.best, self.lowest = None, math.inf
        self.current = [leaf.detach().clone() for leaf in self.actor]
        self.explore = Rollout(model, EPISODES, self.draw, self.memory.record, graph)
        self.measure = Rollout(model, MEASURED, self.greedy(self.current), graph=graph)
        self.learn = repeated(self.update, device, graph)
        self.starts = initial_states(MEASURED, device)

    def draw(self, inputs, _, mean, std):
        eta, _ = act(self.actor, inputs, torch.randn(len(inputs), STATE, device=inputs.device))
        return shifted(self.model, eta, mean, std), eta

    def greedy(self, actor):
        def choose(inputs, _, mean, std):
            eta, _ = act(actor, inputs, torch.zeros(len(inputs), STATE, device=inputs.device))
            return shifted(self.model, eta, mean, std), eta

        return choose

    def update(self):
        seen, time_, choice, gain, goes_on, next_seen, next_time = self.memory.draw()
        noise = lambda: torch.randn(ROWS, STATE, device=self.model.device)
        with torch.no_grad():
            next_choice, log_probability = act(self.actor, next_seen, noise())
            next_value = twins(self.targets, torch.cat([next_seen, next_time, next_choice], 1)).amin(0)
            target = gain + goes_on * (next_value - self.log_alpha.exp() * log_probability)
        errors = twins(self.critics, torch.cat([seen, time_, choice], 1)) - target
        descend(errors.square().mean((1, 2)).sum(), self.critics, self.optimizers[0])
        own, log_probability = act(self.actor, seen, noise())
        value = twins([leaf.detach() for leaf in self.critics], torch.cat([seen, time_, own], 1)).amin(0)
        descend((self.log_alpha.exp().detach() * log_probability - value).mean(), self.actor, self.optimizers[1])
        loss = -self.log_alpha.exp() * (log_probability.detach().mean() - STATE)
        descend(loss, [self.log_alpha], self.optimizers[2])
        with torch.no_grad():
            torch._foreach_lerp_(self.targets, self.critics, POLYAK)

    def round(self, _):
        self.explore.run(initial_states(EPISODES, self.model.device))
        self.memory.close_round()
        self.learn(UPDATES)
        with torch.no_grad():
            torch._foreach_copy_(self.current, self.actor)
        value = self.measure.run(self.starts).mean().item()
        if value < self.lowest:
            self.best, self.lowest = [leaf.detach().clone() for leaf in self.actor], value

    def lowest_adversary(self):
        return self.greedy(self.best)


class Dqn:
    """The adversary of DA1, without the look ahead that hambo adds."""

    def __init__(self, model, graph):
        device = model.device
        self.model = model
        self.networks = network(2, [STATE + ACTION + 1, HIDDEN, HIDDEN, PARTICLES], device)
        self.targets = [leaf.detach().clone() for leaf in self.networks]
        self.optimizer = adam(self.networks, LEARNING_RATE)
        self.memory = Memory(1, torch.long, device)
        self.epsilon = torch.ones((), device=device)
        self.never = torch.zeros((), device=device)
        self.best, self.lowest = None, math.inf
        self.current = [leaf.detach().clone() for leaf in self.networks]
        self.explore = Rollout(model, EPISODES, self.chooser(self.networks, self.epsilon), self.memory.record, graph)
        self.measure = Rollout(model, MEASURED, self.chooser(self.current, self.never), graph=graph)
        self.learn = repeated(self.update, device, graph)
        self.starts = initial_states(MEASURED, device)

    def chooser(self, networks, epsilon):
        def choose(inputs, elapsed, mean, std):
            n = len(inputs)
            member = twins(networks, torch.cat([inputs, elapsed], 1)).sum(0).argmax(1)
            random = torch.randint(PARTICLES, (n,), device=inputs.device)
            member = torch.where(torch.rand(n, device=inputs.device) < epsilon, random, member)
            rows = torch.arange(n, device=inputs.device)
            own = mean[member, rows]
            return own + std[member, rows] * torch.randn_like(own), member.unsqueeze(1)

        return choose

    def update(self):
        seen, time_, choice, gain, goes_on, next_seen, next_time = self.memory.draw()
        with torch.no_grad():
            following = torch.cat([next_seen, next_time], 1)
            chosen = twins(self.networks, following)[0].argmax(1, keepdim=True)
            next_value = twins(self.targets, following).gather(2, chosen.expand(2, -1, -1)).amin(0)
            target = gain + goes_on * next_value
        said = twins(self.networks, torch.cat([seen, time_], 1)).gather(2, choice.expand(2, -1, -1))
        descend((said - target).square().mean((1, 2)).sum(), self.networks, self.optimizer)
        with torch.no_grad():
            torch._foreach_lerp_(self.targets, self.networks, DQN_POLYAK)

    def round(self, share):
        self.epsilon.fill_(1 + (0.05 - 1) * share)
        self.explore.run(initial_states(EPISODES, self.model.device))
        self.memory.close_round()
        self.learn(UPDATES)
        with torch.no_grad():
            torch._foreach_copy_(self.current, self.networks)
        value = self.measure.run(self.starts).mean().item()
        if value < self.lowest:
            self.best, self.lowest = [leaf.detach().clone() for leaf in self.networks], value

    def lowest_adversary(self):
        return self.chooser(self.best, self.never)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the D4RL file that `hambo collect` wrote")
    parser.add_argument("--methods", default="ca", help="ca, da1 or ca,da1")
    parser.add_argument("--steps", type=int, default=8000, help="training steps of the model, a multiple of 200")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--graph", action="store_true", help="steps are captured as CUDA graphs and replayed")
    parser.add_argument("--tf32", action="store_true", help="products in TF32 on a GPU")
    options = parser.parse_args()
    measure.keep_to_cores(options.threads)
    torch.set_num_threads(options.threads)
    # As hambo learns: TF32 on a GPU, 16 bits on a CPU with AMX, of which PyTorch (2.15) made no use there.
    torch.set_float32_matmul_precision("high" if options.tf32 or options.device == "cpu" else "highest")
    torch.manual_seed(0)
    device = torch.device(options.device)
    stages = Stages(device)
    tensors, split = read(options.data, device)
    stages.end("start")
    model = Model(tensors, split, device)
    model.train(options.steps, options.graph)
    stages.end("fit")
    model.calibrate()
    stages.end("calibrate")
    values = {}
    for method in options.methods.split(","):
        adversary = {"ca": Sac, "da1": Dqn}[method](model, options.graph)
        for index in range(options.rounds):
            adversary.round(index / max(1, options.rounds - 1))
        stages.end(f"{method}: rounds")
        final = Rollout(model, ROLLOUTS, adversary.lowest_adversary(), graph=options.graph)
        values[method] = final.run(initial_states(ROLLOUTS, device)).mean().item()
        stages.end(f"{method}: rollouts")
    line = {"peer": "torch-graph" if options.graph else "torch-eager", "version": torch.__version__}
    print(json.dumps(line | {"stages": stages.seconds, "values": values, "tau": model.tau.tolist()}), flush=True)


if __name__ == "__main__":
    main()
