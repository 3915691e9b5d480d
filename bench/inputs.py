"""The seeded inputs that every peer reads, and the layout of the two files that hold them.

`python inputs.py DIR` writes DIR/w1.bin (read by W1 and W2) and DIR/w3.bin. A file is its arrays one after the
other, in the order listed here: float32, little endian, row major, no header. A network is, layer by layer, its
weights `[inputs, outputs]` and then its biases `[outputs]`.
"""

import sys
from itertools import pairwise
from math import prod, sqrt
from pathlib import Path

import numpy as np

SEED = 0
PARTICLES = 5
STATE, ACTION, TARGET = 14, 11, 11
TRAINING_ROWS, QUERY_ROWS, SAC_ROWS = 256, 1000, 1024

# Both heads of a network come out of its last layer side by side: the mean, then what becomes the spread.
DYNAMICS_LAYERS = (STATE, 256, 256, 256, 256, 2 * TARGET)
ACTOR_LAYERS = (STATE, 256, 256, 2 * ACTION)
CRITIC_LAYERS = (STATE + ACTION, 256, 256, 1)

PARTICLE_SPREAD = 0.003
TERMINATION_PROBABILITY = 0.05
NEXT_STATE_SPREAD = 0.1


def layer_shapes(layers):
    """Pairs (inputs, outputs), one for each layer of a network."""
    return list(pairwise(layers))


def parameter_count(layers):
    return sum(inputs * outputs + outputs for inputs, outputs in layer_shapes(layers))


ENSEMBLE_FILE = "w1.bin"
ENSEMBLE_LAYOUT = {
    "particles": (PARTICLES, parameter_count(DYNAMICS_LAYERS)),
    "inputs": (TRAINING_ROWS, STATE),
    "targets": (TRAINING_ROWS, TARGET),
    "query": (QUERY_ROWS, STATE),
}

SAC_FILE = "w3.bin"
SAC_LAYOUT = {
    "actor": (parameter_count(ACTOR_LAYERS),),
    "critic_1": (parameter_count(CRITIC_LAYERS),),
    "critic_2": (parameter_count(CRITIC_LAYERS),),
    "states": (SAC_ROWS, STATE),
    "actions": (SAC_ROWS, ACTION),
    "rewards": (SAC_ROWS, 1),
    "terminated": (SAC_ROWS, 1),
    "next_states": (SAC_ROWS, STATE),
    "next_action_noise": (SAC_ROWS, ACTION),
    "action_noise": (SAC_ROWS, ACTION),
}


def read_ensemble(directory):
    return read(Path(directory) / ENSEMBLE_FILE, ENSEMBLE_LAYOUT)


def read_sac(directory):
    return read(Path(directory) / SAC_FILE, SAC_LAYOUT)


def read(path, layout):
    """The named arrays of one file, as numpy float32."""
    values = np.fromfile(path, dtype="<f4")
    expected = sum(prod(shape) for shape in layout.values())
    if values.size != expected:
        sys.exit(f"{path}: holds {values.size} numbers, expected {expected}; write it anew with bench/inputs.py")
    arrays, start = {}, 0
    for name, shape in layout.items():
        end = start + prod(shape)
        arrays[name] = values[start:end].reshape(shape)
        start = end
    return arrays


def split_layers(flat, layers):
    """Views [(weights, biases), ...] into parameters whose last axis is flat; leading axes are kept.

    Works on numpy, PyTorch and JAX arrays alike.
    """
    leading, start, split = flat.shape[:-1], 0, []
    for inputs, outputs in layer_shapes(layers):
        biases_start, end = start + inputs * outputs, start + inputs * outputs + outputs
        split.append((flat[..., start:biases_start].reshape(*leading, inputs, outputs), flat[..., biases_start:end]))
        start = end
    return split


def write(directory):
    """Draws everything from one generator: the order of the draws is part of the definition of the inputs."""
    generator = np.random.default_rng(SEED)
    normal = generator.standard_normal

    center = draw_network(DYNAMICS_LAYERS, generator)
    ensemble = {
        "particles": center + PARTICLE_SPREAD * normal((PARTICLES, center.size)),
        "inputs": normal((TRAINING_ROWS, STATE)),
        "targets": normal((TRAINING_ROWS, TARGET)),
        "query": normal((QUERY_ROWS, STATE)),
    }

    sac = {
        "states": (states := normal((SAC_ROWS, STATE))),
        "actions": np.tanh(normal((SAC_ROWS, ACTION))),
        "rewards": normal((SAC_ROWS, 1)),
        "terminated": generator.uniform(size=(SAC_ROWS, 1)) < TERMINATION_PROBABILITY,
        "next_states": states + NEXT_STATE_SPREAD * normal((SAC_ROWS, STATE)),
        "next_action_noise": normal((SAC_ROWS, ACTION)),
        "action_noise": normal((SAC_ROWS, ACTION)),
        "actor": draw_network(ACTOR_LAYERS, generator),
        "critic_1": draw_network(CRITIC_LAYERS, generator),
        "critic_2": draw_network(CRITIC_LAYERS, generator),
    }

    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    write_arrays(directory / ENSEMBLE_FILE, ensemble, ENSEMBLE_LAYOUT)
    write_arrays(directory / SAC_FILE, sac, SAC_LAYOUT)


def draw_network(layers, generator):
    """Flat parameters, uniform within 1/sqrt(inputs) of zero: PyTorch's default for a linear layer."""
    parameters = []
    for inputs, outputs in layer_shapes(layers):
        bound = 1 / sqrt(inputs)
        parameters.append(generator.uniform(-bound, bound, inputs * outputs))
        parameters.append(generator.uniform(-bound, bound, outputs))
    return np.concatenate(parameters)


def write_arrays(path, arrays, layout):
    with path.open("wb") as file:
        for name, shape in layout.items():
            assert arrays[name].shape == shape, f"{name}: drawn {arrays[name].shape}, laid out {shape}"
            arrays[name].astype("<f4").tofile(file)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: inputs.py DIR")
    write(sys.argv[1])
