"""The three workloads in PyTorch, eager or replayed as a CUDA graph. Prints one JSON line."""

import math

import torch
import torch.nn.functional as F
from torch import autograd

import inputs
import measure

LEARNING_RATE = 1e-3
PRIOR_PRECISION = 1e-4
SQUARED_KERNEL_LENGTH = 10.0
SMALLEST_STD = 1e-3

SAC_LEARNING_RATE = 3e-4
DISCOUNT = 0.99
POLYAK = 0.005
LOG_STD_RANGE = (-20.0, 2.0)
TARGET_ENTROPY = -float(inputs.ACTION)

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def adam(parameters, learning_rate):
    on_gpu = parameters[0].is_cuda
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True, capturable=on_gpu)


def norm(*tensors):
    """Euclidean norm of all tensors together, in float64: a float32 sum over a million squares is off by 5e-5."""
    return math.sqrt(sum(tensor.detach().double().square().sum().item() for tensor in tensors))


def to_device(arrays, device):
    return {name: torch.from_numpy(array.copy()).to(device) for name, array in arrays.items()}


class Workload:
    """One step of work; `wait` returns once everything stepped so far is done."""

    def __init__(self, device):
        self.device = device

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()


class EnsembleTraining(Workload):
    """W1: one SVGD step of a Bayesian ensemble, by Adam."""

    def __init__(self, data, device):
        super().__init__(device)
        tensors = to_device(inputs.read_ensemble(data), device)
        self.particles = tensors["particles"]
        self.inputs, self.targets = tensors["inputs"], tensors["targets"]
        # Leaves of the graph that are views: the optimizer moves the flat particles, the layers see it.
        self.layers = [
            (weights.requires_grad_(), biases.unsqueeze(1).requires_grad_())
            for weights, biases in inputs.split_layers(self.particles, inputs.DYNAMICS_LAYERS)
        ]
        self.leaves = [leaf for layer in self.layers for leaf in layer]
        self.particles.grad = torch.zeros_like(self.particles)
        self.optimizer = adam([self.particles], LEARNING_RATE)

    def step(self):
        losses = negative_log_likelihood(self.layers, self.inputs, self.targets)
        gradients = autograd.grad(losses.sum(), self.leaves)
        self.losses = losses.detach()  # what keeps the graph of a step alive breaks the capture of the next
        with torch.no_grad():
            self.gradient = torch.cat([gradient.flatten(1) for gradient in gradients], dim=1)
            score = -(self.gradient + PRIOR_PRECISION * self.particles)
            # The optimizer descends, the SVGD direction ascends.
            self.particles.grad.copy_(-svgd_direction(self.particles, score))
        self.optimizer.step()

    def loss(self):
        return self.losses.mean().item()

    def check(self):
        self.step()
        first = {
            "step1_loss": self.loss(),
            "step1_gradient_norm": norm(self.gradient),
            "step1_direction_norm": norm(self.particles.grad),
        }
        for _ in range(9):
            self.step()
        return first | {"step10_loss": self.loss(), "step10_gradient_norm": norm(self.gradient)}


def ensemble_heads(layers, rows):
    """Mean and standard deviation, each [particle, row, target]."""
    hidden = rows.expand(inputs.PARTICLES, -1, -1)
    for weights, biases in layers[:-1]:
        hidden = torch.baddbmm(biases, hidden, weights).relu_()
    weights, biases = layers[-1]
    mean, spread = torch.baddbmm(biases, hidden, weights).chunk(2, dim=-1)
    return mean, F.softplus(spread) + SMALLEST_STD


def negative_log_likelihood(layers, rows, targets):
    """Gaussian, summed over targets and averaged over rows: [particle]."""
    mean, std = ensemble_heads(layers, rows)
    pointwise = 0.5 * ((targets - mean) / std) ** 2 + std.log() + HALF_LOG_TWO_PI
    return pointwise.sum(-1).mean(1)


def svgd_direction(particles, score):
    """phi_i = 1/K sum_j [k_ij score_j + k_ij (x_i - x_j) / l^2], k_ij = exp(-|x_i - x_j|^2 / (2 l^2))."""
    gram = particles @ particles.T
    squares = gram.diagonal()
    distances = (squares[:, None] + squares - 2 * gram).clamp_min(0)
    kernel = torch.exp(-distances / (2 * SQUARED_KERNEL_LENGTH))
    repulsion = (kernel.sum(1, keepdim=True) * particles - kernel @ particles) / SQUARED_KERNEL_LENGTH
    return (kernel @ score + repulsion) / inputs.PARTICLES


class EnsemblePrediction(Workload):
    """W2: mean, epistemic and aleatoric variance of the ensemble after ten training steps."""

    def __init__(self, data, device):
        super().__init__(device)
        training = EnsembleTraining(data, device)
        for _ in range(10):
            training.step()
        self.layers = [(weights.detach(), biases.detach()) for weights, biases in training.layers]
        self.query = to_device(inputs.read_ensemble(data), device)["query"]

    @torch.no_grad()
    def step(self):
        mean, std = ensemble_heads(self.layers, self.query)
        self.mean = mean.mean(0)
        self.epistemic_variance = mean.var(0, unbiased=False)
        self.aleatoric_variance = std.square().mean(0)

    def check(self):
        self.step()
        return {
            "mean_norm": norm(self.mean),
            "epistemic_variance_norm": norm(self.epistemic_variance),
            "aleatoric_variance_norm": norm(self.aleatoric_variance),
        }


class SacUpdate(Workload):
    """W3: one soft actor-critic update of twin critics, actor, temperature and target critics."""

    def __init__(self, data, device):
        super().__init__(device)
        self.batch = to_device(inputs.read_sac(data), device)
        twins = torch.stack([self.batch["critic_1"], self.batch["critic_2"]])
        self.actor = as_leaves(inputs.split_layers(self.batch["actor"], inputs.ACTOR_LAYERS))
        self.critics = as_leaves(
            (weights, biases.unsqueeze(1)) for weights, biases in inputs.split_layers(twins, inputs.CRITIC_LAYERS)
        )
        self.target_critics = [leaf.detach().clone() for leaf in self.critics]
        self.log_alpha = torch.zeros((), device=device, requires_grad=True)
        self.actor_optimizer = adam(self.actor, SAC_LEARNING_RATE)
        self.critic_optimizer = adam(self.critics, SAC_LEARNING_RATE)
        self.temperature_optimizer = adam([self.log_alpha], SAC_LEARNING_RATE)

    def step(self):
        critic_loss = self.loss_of_critics()
        descend(critic_loss, self.critics, self.critic_optimizer)
        self.critic_loss = critic_loss.detach()

        actor_loss, log_probability = self.loss_of_actor()
        descend(actor_loss, self.actor, self.actor_optimizer)
        self.actor_loss = actor_loss.detach()

        temperature_loss = -self.log_alpha.exp() * (log_probability.detach().mean() + TARGET_ENTROPY)
        descend(temperature_loss, [self.log_alpha], self.temperature_optimizer)

        with torch.no_grad():
            torch._foreach_lerp_(self.target_critics, self.critics, POLYAK)

    def loss_of_critics(self):
        batch = self.batch
        with torch.no_grad():
            next_actions, log_probability = act(self.actor, batch["next_states"], batch["next_action_noise"])
            next_value = smaller_value(self.target_critics, batch["next_states"], next_actions)
            soft_value = next_value - self.log_alpha.exp() * log_probability
            target = batch["rewards"] + DISCOUNT * (1 - batch["terminated"]) * soft_value
        errors = values(self.critics, batch["states"], batch["actions"]) - target
        return errors.square().mean((1, 2)).sum()

    def loss_of_actor(self):
        batch = self.batch
        actions, log_probability = act(self.actor, batch["states"], batch["action_noise"])
        fixed_critics = [leaf.detach() for leaf in self.critics]
        value = smaller_value(fixed_critics, batch["states"], actions)
        return (self.log_alpha.exp().detach() * log_probability - value).mean(), log_probability

    def check(self):
        self.step()
        first = {
            "step1_critic_loss": self.critic_loss.item(),
            "step1_actor_loss": self.actor_loss.item(),
            "step1_critic_gradient_norm": norm(*(leaf.grad for leaf in self.critics)),
            "step1_actor_gradient_norm": norm(*(leaf.grad for leaf in self.actor)),
        }
        for _ in range(9):
            self.step()
        return first | {
            "step10_critic_loss": self.critic_loss.item(),
            "step10_actor_loss": self.actor_loss.item(),
            "step10_log_alpha": self.log_alpha.item(),
        }


def as_leaves(layers):
    """Weights and biases in turn, each its own contiguous tensor with a gradient."""
    return [tensor.clone().requires_grad_() for layer in layers for tensor in layer]


def descend(loss, parameters, optimizer):
    for parameter, gradient in zip(parameters, autograd.grad(loss, parameters)):
        parameter.grad = gradient
    optimizer.step()


def act(actor, states, noise):
    """Actions squashed by tanh, and their log probability [row, 1]."""
    weights_1, biases_1, weights_2, biases_2, weights_3, biases_3 = actor
    hidden = F.relu(torch.addmm(biases_1, states, weights_1))
    hidden = F.relu(torch.addmm(biases_2, hidden, weights_2))
    mean, log_std = torch.addmm(biases_3, hidden, weights_3).chunk(2, dim=1)
    log_std = log_std.clamp(*LOG_STD_RANGE)
    raw = mean + log_std.exp() * noise
    log_gaussian = -0.5 * noise * noise - log_std - HALF_LOG_TWO_PI
    log_squash = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
    return raw.tanh(), (log_gaussian - log_squash).sum(1, keepdim=True)


def values(critics, states, actions):
    """What each twin critic says: [critic, row, 1]."""
    weights_1, biases_1, weights_2, biases_2, weights_3, biases_3 = critics
    rows = torch.cat([states, actions], dim=1).expand(2, -1, -1)
    hidden = F.relu(torch.baddbmm(biases_1, rows, weights_1))
    hidden = F.relu(torch.baddbmm(biases_2, hidden, weights_2))
    return torch.baddbmm(biases_3, hidden, weights_3)


def smaller_value(critics, states, actions):
    return values(critics, states, actions).amin(0)


class Graphed(Workload):
    """A workload whose step is captured once and then replayed, which spares the launches from Python."""

    def __init__(self, workload):
        super().__init__(workload.device)
        side_stream = torch.cuda.Stream()
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(5):
                workload.step()
        torch.cuda.current_stream().wait_stream(side_stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            workload.step()
        self.workload = workload
        self.step = graph.replay


WORKLOADS = {"w1": EnsembleTraining, "w2": EnsemblePrediction, "w3": SacUpdate}


def main():
    parser = measure.parser(__doc__)
    parser.add_argument("--graph", action="store_true", help="capture the step as a CUDA graph")
    options = parser.parse_args()
    if options.graph and options.device != "cuda":
        parser.error("--graph needs --device cuda")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: this PyTorch sees no GPU")

    measure.keep_to_cores(options.threads)
    torch.set_num_threads(options.threads)
    workload = WORKLOADS[options.work](options.data, torch.device(options.device))
    check = workload.check() if options.check else None
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    timed = Graphed(workload) if options.graph else workload
    rates = measure.steps_per_second(timed, options.seconds)
    measure.print_line("torch-graph" if options.graph else "torch-eager", torch.__version__, options.work, rates, check)


if __name__ == "__main__":
    main()
