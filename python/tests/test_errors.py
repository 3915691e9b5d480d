"""Wrong inputs are exceptions of our own that name what is wrong; nothing is computed before."""

import gymnasium
import numpy as np
import pytest
from conftest import SWING_UP, TINY

import hambo

NAMES = ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")


def changed(arrays, name, value):
    return {**arrays, name: value}


def with_value(name, value):
    def change(arrays):
        copy = arrays[name].copy()
        copy[17] = value
        return changed(arrays, name, copy)

    return change


def replaced(name, made):
    return lambda arrays: changed(arrays, name, made(arrays[name]))


FLOATS = NAMES[:4]
MATRICES = ("observations", "actions", "next_observations")
WORDS = {
    "observations": "states",
    "actions": "actions",
    "rewards": "rewards",
    "next_observations": "next_states",
    "terminals": "terminals",
    "timeouts": "timeouts",
}

DATA = [
    # Numbers that are none.
    *((with_value(name, value), f"{WORDS[name]}, row 17") for name in FLOATS for value in (np.nan, np.inf, -np.inf)),
    *((replaced(name, lambda a: np.where(np.arange(len(a)) == 3, 1e300, a.T.astype(float)).T), f"{WORDS[name]}, row 3") for name in FLOATS),
    # Lengths and shapes.
    *((replaced(name, lambda a: a[:-1]), WORDS[name]) for name in NAMES if name != "observations"),
    *((replaced(name, lambda a: np.concatenate([a, a])), "expected") for name in NAMES),
    *((replaced(name, lambda a: a[:, :, None]), f"{WORDS[name]} have shape") for name in MATRICES),
    *((replaced(name, lambda a: a[:, 0]), f"{WORDS[name]} have shape") for name in MATRICES),
    *((replaced(name, lambda a: np.stack([a, a], 1)), f"{WORDS[name]} have shape") for name in ("rewards", "terminals", "timeouts")),
    (replaced("next_observations", lambda a: a[:, :2]), "next_states have shape"),
    *((replaced(name, lambda a: a[0]), "shape") for name in MATRICES),
    *((replaced(name, lambda a: np.float32(0)), "shape") for name in NAMES),
    # Types.
    *((replaced(name, lambda a: a.astype(str)), f"{WORDS[name]} hold") for name in NAMES),
    *((replaced(name, lambda a: a.astype(complex)), f"{WORDS[name]} hold complex") for name in NAMES),
    *((replaced(name, lambda a: [[1.0], [1.0, 2.0]]), f"{WORDS[name]} are no array") for name in NAMES),
    *((replaced(name, lambda a: [object()] * len(a)), f"{WORDS[name]} hold object") for name in NAMES),
    *((replaced(name, lambda a: a.astype("datetime64[s]") if a.dtype != bool else a.astype("timedelta64[s]")), "hold") for name in NAMES),
    # Flags.
    *((replaced(name, lambda a: a.astype(int) + 2), f"{WORDS[name]}, row 0: [23]: expected 0 or 1") for name in ("terminals", "timeouts")),
    *((replaced(name, lambda a: a * np.nan), f"{WORDS[name]}, row 0: nan") for name in ("terminals", "timeouts")),
    # What is missing, and too little of it.
    *((lambda arrays, name=name: {n: a for n, a in arrays.items() if n != name}, "no array for") for name in NAMES[:3]),
    (lambda arrays: {}, "the dict has nothing"),
    *((lambda arrays, n=n: {name: a[:n] for name, a in arrays.items()}, "transitions|rows") for n in (0, 1)),
    (lambda arrays: {name: a[:, :0] if a.ndim == 2 else a for name, a in arrays.items()}, "at least one"),
    (replaced("observations", lambda a: np.concatenate([a, a[:1]])), "expected"),
    # Data that never change.
    (replaced("actions", np.zeros_like), "actions"),
    # Other things.
    (lambda arrays: None, "holds transitions"),
    (lambda arrays: 7, "holds transitions"),
    (lambda arrays: [], "holds transitions"),
    (lambda arrays: [1, 2], "holds transitions"),
    (lambda arrays: arrays["observations"], "holds transitions"),
    (lambda arrays: object(), "builtins.object"),
    (lambda arrays: (x for x in ()), "generator"),
    # Files.
    (lambda arrays: "no-such-file.hdf5", "no-such-file.hdf5: cannot read"),
    (lambda arrays: ["no-such-file.csv", "other.csv"], "no-such-file.csv"),
    (lambda arrays: __file__, "test_errors.py"),
    (lambda arrays: "", "a path is empty"),
    (lambda arrays: "minari:no/such-v0", "minari download"),
    (lambda arrays: "/dev/null", "/dev/null"),
]


@pytest.mark.parametrize("number", range(len(DATA)))
def test_data(arrays, pendulum, number):
    make, words = DATA[number]
    with pytest.raises(hambo.DataError, match=words):
        hambo.evaluate(make(arrays), SWING_UP, **pendulum)


TRANSITIONS = [
    ((np.zeros((4, 2)), np.zeros((4, 1)), np.zeros(3)), "rewards have shape"),
    ((np.zeros(4), np.zeros((4, 1)), np.zeros(4)), "states have shape"),
    (("states", np.zeros((4, 1)), np.zeros(4)), "states hold"),
    ((None, np.zeros((4, 1)), np.zeros(4)), "states hold object"),
    ((np.full((4, 2), np.nan), np.zeros((4, 1)), np.zeros(4)), "states, row 0, column 0: nan"),
]


@pytest.mark.parametrize("number", range(len(TRANSITIONS)))
def test_transitions_are_looked_at_when_they_are_made(number):
    columns, words = TRANSITIONS[number]
    with pytest.raises(hambo.DataError, match=words):
        hambo.Transitions(*columns)


class Unsaved:
    __module__ = "stable_baselines3.common.base_class"


class BaseAlgorithm(Unsaved):
    __module__ = "stable_baselines3.common.base_class"

    def save(self, path):
        raise OSError("the disk is full")


POLICIES = [
    ("no-such-agent.zip", "no-such-agent.zip: cannot read"),
    (__file__, "test_errors.py"),
    ("builtin:nonsense", "nonsense"),
    (f"{SWING_UP},gain=3", 'no gain "gain"'),
    ("builtin:waypoint", "takes states of 2 and gives actions of 2 dimensions, task pendulum has 3 and 1"),
    (None, "is no policy"),
    (7, "is no policy"),
    ([1.0], "is no policy"),
    (np.zeros(3), "is no policy"),
    (dict, "is no policy"),
    (BaseAlgorithm(), "cannot be saved: the disk is full"),
    (lambda states: 1 / 0, "<lambda> raised ZeroDivisionError: division by zero, at call 1, of 256 states"),
    (lambda: None, "raised TypeError"),
    (lambda states: None, "returned NoneType of object: expected numbers"),
    (lambda states: "left", "expected numbers"),
    (lambda states: states[:, 0] > 0, "expected numbers"),
    (lambda states: states[:, :1] * 1j, "complex64: expected numbers"),
    (lambda states: [[1.0], [1.0, 2.0]], "returned no array"),
    (lambda states: 0.0, r"shape \[\]: expected \[256, 1\]"),
    (lambda states: states[:, 0], r"shape \[256\]: expected \[256, 1\]"),
    (lambda states: states, r"shape \[256, 3\]: expected \[256, 1\]"),
    (lambda states: states[:-1, :1], r"shape \[255, 1\]"),
    (lambda states: states[None, :, :1], r"shape \[1, 256, 1\]"),
    (lambda states: states[:, :1] * np.nan, r"returned \[nan\] for the state"),
    (lambda states: states[:, :1] * np.float32(1e38) * np.float32(1e38), "returned"),
]


@pytest.mark.parametrize("number", range(len(POLICIES)))
def test_policies(log, pendulum, number):
    policy, words = POLICIES[number]
    with pytest.raises(hambo.PolicyError, match=words):
        hambo.evaluate(log, policy, **pendulum)
    with pytest.raises(hambo.PolicyError, match=words):
        hambo.rank(log, [SWING_UP, policy], **pendulum)


@pytest.mark.parametrize("wrong", ["raises", "NaN", "shape"])
@pytest.mark.parametrize("call", [2, 57])
def test_a_function_that_goes_wrong_on_the_way(log, pendulum, wrong, call):
    calls = 0

    def policy(states):
        nonlocal calls
        calls += 1
        actions = -0.5 * states[:, 2:3]
        if calls == call:
            if wrong == "raises":
                raise RuntimeError("the robot is out of battery")
            return actions * np.nan if wrong == "NaN" else actions[:, 0]
        return actions

    words = {"raises": "raised RuntimeError: the robot is out of battery", "NaN": "nan", "shape": "of shape"}[wrong]
    with pytest.raises(hambo.PolicyError, match=f"{words}.*at call {call}, of") as caught:
        hambo.evaluate(log, policy, **pendulum)
    assert calls == call
    if wrong == "raises":
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_policies_of_other_sizes(log, pendulum):
    torch = pytest.importorskip("torch")
    for sizes in ((4, 1), (3, 2)):
        with pytest.raises(hambo.PolicyError, match=f"takes states of {sizes[0]} and gives actions of {sizes[1]}"):
            hambo.evaluate(log, torch.nn.Sequential(torch.nn.Linear(*sizes)), **pendulum)
    discrete = gymnasium.make("CartPole-v1")
    sb3 = pytest.importorskip("stable_baselines3")
    with pytest.raises(hambo.PolicyError):
        hambo.evaluate(log, sb3.PPO("MlpPolicy", discrete, device="cpu"), **pendulum)


SETTINGS = [
    *(("horizon", value, "horizon") for value in (0, -1, 2.5, "10", None, True, 10**9, float("nan"))),
    *(("rollouts", value, "rollouts") for value in (0, 1, 99, -5, 1e4, "many", 10**9, True)),
    *(("gamma", value, "gamma|discount") for value in (0.0, 1.5, -1, "x", float("nan"), float("inf"), True)),
    *(("delta", value, "delta") for value in (0.0, 1.0, -0.1, 2, "x", float("nan"))),
    *(("threshold", value, "threshold") for value in (float("inf"), float("nan"), "x", [1])),
    *(("beta", value, "beta") for value in (-1.0, "nonsense", float("nan"), [1], "theory")),
    *(("methods", value, "method") for value in ("nonsense", ["ca", "x"], "", [], 3)),
    *(("seed", value, "seed") for value in (-1, 0.5, "x", 2**64)),
    *(("effort", value, "effort") for value in ("enormous", 3)),
    *(("device", value, "device") for value in ("tpu", 1)),
    *(("model", value, "model") for value in ("tree", 1)),
    *(("threads", value, "threads") for value in (0, -1, 10**6, 1.5)),
    *(("subsample", value, "subsample") for value in (0, 1, -3, "rows:x", 2.5)),
    *(("policy_noise", value, "policy_noise|policy-noise") for value in (-1, "x", float("inf"))),
    *(("angles", value, "angles") for value in ([7], ["x"], 3, [-1])),
    *(("accept_extrapolation", value, "accept_extrapolation") for value in (1, "yes")),
    *(("worst_reward", value, "worst_reward|worst-reward") for value in ("x", float("nan"))),
    *(("model_config", value, "") for value in ({"nonsense": 1}, {"hidden": "x"}, {"hidden": [0]}, {"steps": object()}, 3, "no.json")),
    *(("search_config", value, "") for value in ({"nonsense": 1}, {"batch": 0}, 3)),
    *(("truth_episodes", value, "truth") for value in (0, 1, "x")),
    *(("columns", value, "") for value in ("state=x", {"nonsense": "x"}, {"state": "x"}, 3)),
    *(("save_every", value, "save") for value in (1.0, "x")),
    *(("progress", value, "progress") for value in ("x", 3)),
    *(("out", value, "") for value in (3, __file__, "/proc/no/such")),
    *(("fitted", value, "") for value in (3, "no-such-folder")),
    *(("curves", value, "curves") for value in (1, "x")),
    *(("stochastic", value, "") for value in (True, 1)),
]


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_settings(log, pendulum, number):
    name, value, words = SETTINGS[number]
    with pytest.raises(hambo.Error, match=words or None) as caught:
        hambo.evaluate(log, SWING_UP, **{**pendulum, name: value})
    assert "mistake in hambo" not in str(caught.value)


TASKS = [
    *(("env", value) for value in ("nonsense", "Nonsense-v0", "CartPole-v1", 3, object(), "", gymnasium.make("CartPole-v1"))),
    *(("env", value) for value in ("hopper", "point", gymnasium.make("MountainCarContinuous-v0"), gymnasium.make_vec("Pendulum-v1", 2))),
    *(("reward", value) for value in ("s[0", "nonsense", "s[9]", "1/0", lambda states: states, 3)),
    *(("termination", value) for value in ("n[0", "n[9] > 1", "learned", 3)),
    *(("task", value) for value in ("no-such-task.toml", __file__, 3)),
]


@pytest.mark.parametrize("number", range(len(TASKS)))
def test_tasks(log, number):
    name, value = TASKS[number]
    with pytest.raises(hambo.Error) as caught:
        hambo.evaluate(log, SWING_UP, horizon=5, **TINY, **{name: value})
    assert "mistake in hambo" not in str(caught.value)
    expected = {"reward": "s[0", "env": "nonsense", "task": "no-such-task.toml"}.get(name)
    if value == expected:
        assert isinstance(caught.value, hambo.TaskError)


def test_unknown_settings_are_type_errors(log):
    with pytest.raises(TypeError, match="did you mean 'threshold'"):
        hambo.evaluate(log, SWING_UP, horizon=5, treshold=1)
    with pytest.raises(TypeError, match="horizon"):
        hambo.evaluate(log, SWING_UP)
    for policies in (SWING_UP, [], None, 3):
        with pytest.raises(hambo.PolicyError, match="a list of one policy"):
            hambo.rank(log, policies, horizon=5)
    with pytest.raises(hambo.Error, match="no-such-file"):
        hambo.inspect("no-such-file.csv")
    with pytest.raises(hambo.SettingError, match="model_config"):
        hambo.Model(log, {}, {}).evaluate(SWING_UP, horizon=5, model_config={})


def test_errors_are_of_one_family():
    for name in ("DataError", "PolicyError", "TaskError", "SettingError"):
        assert issubclass(getattr(hambo, name), hambo.Error) and issubclass(getattr(hambo, name), ValueError)
