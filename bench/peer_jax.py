"""The three workloads in JAX, each step one jitted function. Prints one JSON line."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

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

ADAM_DECAYS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def network(layers, rows):
    """A multilayer perceptron with ReLU between its layers."""
    for weights, biases in layers[:-1]:
        rows = jax.nn.relu(rows @ weights + biases)
    weights, biases = layers[-1]
    return rows @ weights + biases


def adam_start(parameters):
    """Zero first and second moments."""
    return jax.tree.map(jnp.zeros_like, parameters), jax.tree.map(jnp.zeros_like, parameters)


def adam_step(parameters, gradients, moments, count, learning_rate):
    """The moved parameters and the new moments, at the `count`-th step."""
    decay_1, decay_2 = ADAM_DECAYS
    first = jax.tree.map(lambda m, g: decay_1 * m + (1 - decay_1) * g, moments[0], gradients)
    second = jax.tree.map(lambda v, g: decay_2 * v + (1 - decay_2) * g * g, moments[1], gradients)
    unbias_1, unbias_2 = 1 - decay_1**count, 1 - decay_2**count

    def move(parameter, m, v):
        return parameter - learning_rate * (m / unbias_1) / (jnp.sqrt(v / unbias_2) + ADAM_EPSILON)

    return jax.tree.map(move, parameters, first, second), (first, second)


def norm(tree):
    """Euclidean norm of all arrays together, in float64: a float32 sum over a million squares is off by 5e-5."""
    return math.sqrt(sum(np.square(np.asarray(leaf, np.float64)).sum() for leaf in jax.tree.leaves(tree)))


def to_device(arrays):
    return {name: jnp.asarray(array) for name, array in arrays.items()}


class Learning:
    """A workload that carries state: `advance(state, batch)` gives the next state, the losses and the gradients.

    The gradients are handed back even when only timing: a gradient that nobody reads is fused into the products
    that follow it and computed again for each, which made W1 ten times slower on a CPU.
    """

    def __init__(self, advance, state, batch):
        self.advance = jax.jit(advance, donate_argnums=0)
        self.state, self.batch = state, batch

    def step(self):
        self.state, self.losses, self.gradients = self.advance(self.state, self.batch)

    def wait(self):
        jax.block_until_ready(self.state)


class EnsembleTraining(Learning):
    """W1: one SVGD step of a Bayesian ensemble, by Adam."""

    def __init__(self, data):
        batch = to_device(inputs.read_ensemble(data))
        particles = batch.pop("particles")
        state = {"particles": particles, "moments": adam_start(particles), "count": jnp.float32(0)}
        super().__init__(svgd_step, state, batch)

    def check(self):
        self.step()
        gradient, direction = self.gradients
        first = {
            "step1_loss": float(self.losses.mean()),
            "step1_gradient_norm": norm(gradient),
            "step1_direction_norm": norm(direction),
        }
        for _ in range(9):
            self.step()
        gradient, _ = self.gradients
        return first | {"step10_loss": float(self.losses.mean()), "step10_gradient_norm": norm(gradient)}


def svgd_step(state, batch):
    particles, count = state["particles"], state["count"] + 1
    loss_and_gradient = jax.vmap(jax.value_and_grad(negative_log_likelihood), in_axes=(0, None, None))
    losses, gradient = loss_and_gradient(particles, batch["inputs"], batch["targets"])
    score = -(gradient + PRIOR_PRECISION * particles)
    # Adam descends, the SVGD direction ascends.
    descent = -svgd_direction(particles, score)
    particles, moments = adam_step(particles, descent, state["moments"], count, LEARNING_RATE)
    return {"particles": particles, "moments": moments, "count": count}, losses, (gradient, descent)


def heads(particle, rows):
    """Mean and standard deviation of one particle, each [row, target]."""
    mean, spread = jnp.split(network(inputs.split_layers(particle, inputs.DYNAMICS_LAYERS), rows), 2, axis=1)
    return mean, jax.nn.softplus(spread) + SMALLEST_STD


def negative_log_likelihood(particle, rows, targets):
    """Gaussian, summed over targets and averaged over rows."""
    mean, std = heads(particle, rows)
    return (0.5 * ((targets - mean) / std) ** 2 + jnp.log(std) + HALF_LOG_TWO_PI).sum(1).mean()


def svgd_direction(particles, score):
    """phi_i = 1/K sum_j [k_ij score_j + k_ij (x_i - x_j) / l^2], k_ij = exp(-|x_i - x_j|^2 / (2 l^2))."""
    gram = particles @ particles.T
    squares = jnp.diag(gram)
    distances = jnp.maximum(squares[:, None] + squares - 2 * gram, 0)
    kernel = jnp.exp(-distances / (2 * SQUARED_KERNEL_LENGTH))
    repulsion = (kernel.sum(1, keepdims=True) * particles - kernel @ particles) / SQUARED_KERNEL_LENGTH
    return (kernel @ score + repulsion) / inputs.PARTICLES


class EnsemblePrediction:
    """W2: mean, epistemic and aleatoric variance of the ensemble after ten training steps."""

    def __init__(self, data):
        training = EnsembleTraining(data)
        for _ in range(10):
            training.step()
        self.particles, self.query = training.state["particles"], training.batch["query"]
        self.predict = jax.jit(predict)

    def step(self):
        self.prediction = self.predict(self.particles, self.query)

    def wait(self):
        jax.block_until_ready(self.prediction)

    def check(self):
        self.step()
        mean, epistemic_variance, aleatoric_variance = self.prediction
        return {
            "mean_norm": norm(mean),
            "epistemic_variance_norm": norm(epistemic_variance),
            "aleatoric_variance_norm": norm(aleatoric_variance),
        }


def predict(particles, rows):
    mean, std = jax.vmap(heads, in_axes=(0, None))(particles, rows)
    return mean.mean(0), mean.var(0), jnp.square(std).mean(0)


class SacUpdate(Learning):
    """W3: one soft actor-critic update of twin critics, actor, temperature and target critics."""

    def __init__(self, data):
        batch = to_device(inputs.read_sac(data))
        actor = inputs.split_layers(batch.pop("actor"), inputs.ACTOR_LAYERS)
        twins = jnp.stack([batch.pop("critic_1"), batch.pop("critic_2")])
        critics = inputs.split_layers(twins, inputs.CRITIC_LAYERS)
        log_alpha = jnp.float32(0)
        state = {
            "actor": actor,
            "critics": critics,
            "target_critics": jax.tree.map(jnp.copy, critics),
            "log_alpha": log_alpha,
            "actor_moments": adam_start(actor),
            "critic_moments": adam_start(critics),
            "temperature_moments": adam_start(log_alpha),
            "count": jnp.float32(0),
        }
        super().__init__(sac_step, state, batch)

    def check(self):
        self.step()
        critic_gradient, actor_gradient = self.gradients
        critic_loss, actor_loss = self.losses
        first = {
            "step1_critic_loss": float(critic_loss),
            "step1_actor_loss": float(actor_loss),
            "step1_critic_gradient_norm": norm(critic_gradient),
            "step1_actor_gradient_norm": norm(actor_gradient),
        }
        for _ in range(9):
            self.step()
        critic_loss, actor_loss = self.losses
        return first | {
            "step10_critic_loss": float(critic_loss),
            "step10_actor_loss": float(actor_loss),
            "step10_log_alpha": float(self.state["log_alpha"]),
        }


def sac_step(state, batch):
    count, alpha = state["count"] + 1, jnp.exp(state["log_alpha"])
    adam = partial(adam_step, count=count, learning_rate=SAC_LEARNING_RATE)

    next_actions, next_log_probability = act(state["actor"], batch["next_states"], batch["next_action_noise"])
    next_value = smaller_value(state["target_critics"], batch["next_states"], next_actions)
    soft_value = next_value - alpha * next_log_probability
    target = batch["rewards"] + DISCOUNT * (1 - batch["terminated"]) * soft_value

    def loss_of_critics(critics):
        return jnp.square(values(critics, batch["states"], batch["actions"]) - target).mean((1, 2)).sum()

    critic_loss, critic_gradient = jax.value_and_grad(loss_of_critics)(state["critics"])
    critics, critic_moments = adam(state["critics"], critic_gradient, state["critic_moments"])

    def loss_of_actor(actor):
        actions, log_probability = act(actor, batch["states"], batch["action_noise"])
        value = smaller_value(critics, batch["states"], actions)
        return (alpha * log_probability - value).mean(), log_probability.mean()

    (actor_loss, log_probability), actor_gradient = jax.value_and_grad(loss_of_actor, has_aux=True)(state["actor"])
    actor, actor_moments = adam(state["actor"], actor_gradient, state["actor_moments"])

    # The gradient, by log alpha, of -alpha (log probability + target entropy).
    temperature_gradient = -alpha * (log_probability + TARGET_ENTROPY)
    log_alpha, temperature_moments = adam(state["log_alpha"], temperature_gradient, state["temperature_moments"])

    def follow(slow, fast):
        return slow + POLYAK * (fast - slow)

    next_state = {
        "actor": actor,
        "critics": critics,
        "target_critics": jax.tree.map(follow, state["target_critics"], critics),
        "log_alpha": log_alpha,
        "actor_moments": actor_moments,
        "critic_moments": critic_moments,
        "temperature_moments": temperature_moments,
        "count": count,
    }
    return next_state, (critic_loss, actor_loss), (critic_gradient, actor_gradient)


def act(actor, states, noise):
    """Actions squashed by tanh, and their log probability [row, 1]."""
    mean, log_std = jnp.split(network(actor, states), 2, axis=1)
    log_std = jnp.clip(log_std, *LOG_STD_RANGE)
    raw = mean + jnp.exp(log_std) * noise
    log_gaussian = -0.5 * noise * noise - log_std - HALF_LOG_TWO_PI
    log_squash = 2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw))
    return jnp.tanh(raw), (log_gaussian - log_squash).sum(1, keepdims=True)


def values(critics, states, actions):
    """What each twin critic says: [critic, row, 1]."""
    return jax.vmap(network, in_axes=(0, None))(critics, jnp.concatenate([states, actions], axis=1))


def smaller_value(critics, states, actions):
    return values(critics, states, actions).min(0)


WORKLOADS = {"w1": EnsembleTraining, "w2": EnsemblePrediction, "w3": SacUpdate}


def main():
    options = measure.parser(__doc__).parse_args()
    measure.keep_to_cores(options.threads)  # before the first array: JAX sizes its thread pool then, by the cores
    jax.config.update("jax_platforms", options.device)
    workload = WORKLOADS[options.work](options.data)
    with jax.default_matmul_precision("float32"):
        check = workload.check() if options.check else None
    with jax.default_matmul_precision("tensorfloat32" if options.tf32 else "float32"):
        rates = measure.steps_per_second(workload, options.seconds)
    measure.print_line("jax-jit", jax.__version__, options.work, rates, check)


if __name__ == "__main__":
    main()
