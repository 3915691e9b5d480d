"""Rewards and terminations that are functions, and environments of gymnasium that are stepped."""

import gymnasium
import numpy as np
import pytest
from conftest import SWING_UP, TINY

import hambo

SETTINGS = {"horizon": 10, **TINY}
PAYS = "-(s[0] - 1)^2 - 0.1 * s[2]^2 - 0.001 * a[0]^2 + 0.01 * n[1]"
ENDS = "n[2] > 4"


def pays(states, actions, next_states):
    return -((states[:, 0] - 1) ** 2) - 0.1 * states[:, 2] ** 2 - 0.001 * actions[:, 0] ** 2 + 0.01 * next_states[:, 1]


def ends(next_states):
    return next_states[:, 2] > 4


def values(result):
    return {estimate.method: estimate.value for estimate in result.estimates}


def test_functions_say_what_expressions_say(log):
    ours = hambo.evaluate(log, SWING_UP, reward=pays, termination=ends, **SETTINGS)
    theirs = hambo.evaluate(log, SWING_UP, reward=PAYS, termination=ENDS, **SETTINGS)
    for method, value in values(theirs).items():
        if method != "ca":
            assert values(ours)[method] == pytest.approx(value, rel=1e-5), method
    told = ours.to_dict()
    assert told["declared"]["reward"] == "pays" and told["declared"]["termination"]["rule"] == "ends"
    assert told["declared"]["worst_reward"] == pytest.approx(theirs.to_dict()["declared"]["worst_reward"], rel=1e-5)


def test_without_a_gradient_sac_searches_and_the_answer_says_so(log):
    settings = {**SETTINGS, "methods": "ca", "beta": 1}
    ours = hambo.evaluate(log, SWING_UP, env="pendulum", reward=pays, **settings)
    found = {candidate["optimiser"] for candidate in ours.to_dict()["adversary"]["candidates"]}
    assert found == {"sac"}
    assert any("the reward pays is a function without a gradient" in warning for warning in ours.warnings)
    theirs = hambo.evaluate(log, SWING_UP, env="pendulum", reward=PAYS, **settings)
    assert not any("without a gradient" in warning for warning in theirs.warnings)


def test_functions_see_batches(log):
    rows, kinds = [], set()

    def watched(states, actions, next_states):
        rows.append(len(states))
        kinds.add((states.shape[1], actions.shape[1], next_states.shape == states.shape, states.dtype.name))
        return pays(states, actions, next_states)

    hambo.evaluate(log, SWING_UP, env="pendulum", reward=watched, methods="ds", **SETTINGS)
    assert 1000 in rows and len(rows) < 200
    assert kinds == {(3, 1, True, "float32")}


def test_a_termination_may_be_none_of_the_environments(log):
    hopeless = hambo.evaluate(log, SWING_UP, env="pendulum", termination=lambda n: np.ones(len(n), bool), methods="ds", **SETTINGS)
    usual = hambo.evaluate(log, SWING_UP, env="pendulum", methods="ds", **SETTINGS)
    assert hopeless.estimates[0].value > usual.estimates[0].value  # one step of costs


def test_a_model_keeps_its_functions(log):
    settings = {name: value for name, value in SETTINGS.items() if name != "horizon"}
    model = hambo.fit(log, reward=pays, termination=ends, **settings)
    direct = hambo.evaluate(log, SWING_UP, reward=pays, termination=ends, methods="ds", **SETTINGS)
    assert model.evaluate(SWING_UP, horizon=10, methods="ds").estimates[0].value == direct.estimates[0].value


def test_unfinished_work_of_another_function_is_not_taken_up(log, tmp_path):
    """Functions may have the same name."""
    model = {**TINY["model_config"], "steps": 4000, "patience": 4000}
    settings = {**SETTINGS, "env": "pendulum", "methods": "ds", "save_every": 0, "out": tmp_path, "model_config": model}

    def stop_in_the_middle(stage, done, *_):
        if stage.startswith("training") and done >= 400:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hambo.evaluate(log, SWING_UP, reward=lambda s, a, n: pays(s, a, n), progress=stop_in_the_middle, **settings)
    assert any((tmp_path / "unfinished").iterdir())
    with pytest.raises(hambo.Error, match="task.functions"):
        hambo.evaluate(log, SWING_UP, reward=lambda s, a, n: np.minimum(pays(s, a, n), -0.5), **settings)


def broken(kind, call, right):
    """A function that is right until one of its calls, and the number of its calls."""
    calls = []

    def function(*inputs):
        calls.append(len(inputs[0]))
        found = right(*inputs)
        if len(calls) != call:
            return found
        if kind == "raises":
            raise RuntimeError("the sensor is gone")
        return {"NaN": found * np.nan, "shape": found[:, None], "short": found[:-1], "text": "much", "nothing": None}[kind]

    return function, calls


WORDS = {
    "raises": "raised RuntimeError: the sensor is gone",
    "NaN": "nan|expected True or False",
    "shape": "of shape",
    "short": "of shape",
    "text": "expected",
    "nothing": "returned NoneType",
}


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("call", [1, 2, 57])
@pytest.mark.parametrize("what", ["reward", "termination"])
def test_functions_that_go_wrong(log, what, call, kind):
    function, calls = broken(kind, call, {"reward": pays, "termination": ends}[what])
    with pytest.raises(hambo.TaskError, match=f"{what} function.*({WORDS[kind]}).*at call {call}, of") as caught:
        hambo.evaluate(log, SWING_UP, env="pendulum", **{what: function}, **SETTINGS)
    assert len(calls) == call
    if kind == "raises":
        assert isinstance(caught.value.__cause__, RuntimeError)


ODD = [
    ("reward", lambda states: states[:, 0], "takes 1 positional argument"),
    ("reward", lambda s, a, n: s[:, 0] > 0, "expected numbers"),
    ("reward", lambda s, a, n: s[:, 0] * 1j, "expected numbers"),
    ("reward", lambda s, a, n: 0.0, r"shape \[\]"),
    ("reward", lambda s, a, n: s, r"of shape \[1000, 3\]: expected \[1000\]"),
    ("reward", lambda s, a, n: np.where(s[:, 0] > 0, np.inf, 0), "returned inf"),
    ("reward", lambda s, a, n: np.full(len(s), 1e300), "returned inf"),
    ("reward", lambda s, a, n: [[1.0], [1.0, 2.0]], "returned no array"),
    ("reward", print, "returned NoneType"),
    ("termination", lambda n: n[:, 0], "expected True or False"),
    ("termination", lambda n: (n[:, 0] > 0).astype(int), "expected True or False"),
    ("termination", lambda n: True, r"shape \[\]"),
    ("termination", lambda s, a, n: n[:, 0] > 0, "missing 2 required"),
    ("termination", lambda n: [True, False], r"shape \[2\]: expected \[1000\]"),
    ("termination", lambda n: n > 0, r"of shape \[1000, 3\]"),
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_odd_functions(log, number):
    what, function, words = ODD[number]
    with pytest.raises(hambo.TaskError, match=words):
        hambo.evaluate(log, SWING_UP, env="pendulum", **{what: function}, **SETTINGS)


def heavier():
    """Pendulum with its own gravity said again: another environment for hambo, the same for physics."""
    return gymnasium.make("Pendulum-v1", g=10.0)


def test_the_truth_by_an_environments_own_steps(log):
    settings = {**SETTINGS, "horizon": 200, "methods": "ds", "truth_episodes": 60}
    given = hambo.evaluate(log, SWING_UP, env=heavier(), **settings).to_dict()["truth"]
    known = hambo.evaluate(log, SWING_UP, env="pendulum", **{**settings, "truth_episodes": 1000}).to_dict()["truth"]
    assert given["episodes"] == 60 and given["std_error"] > 0
    error = np.hypot(given["std_error"], known["std_error"])
    assert abs(given["value"] - known["value"]) < 4 * error, (given, known)
    again = hambo.evaluate(log, lambda s: np.zeros((len(s), 1)), env=heavier(), **settings)
    assert again.to_dict()["truth"]["value"] < given["value"] - 100  # it hangs down
    assert "true return" in repr(again)


class Counter(gymnasium.Env):
    """Pays its action; episodes end on their own after three steps."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)
    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (3,), np.float64)
    wrong: str | None = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.array([self.np_random.random(), 0.0, 0.0]), {}

    def step(self, action):
        assert action.dtype == np.float64 and -1 <= action[0] <= 1
        self.steps += 1
        if self.wrong == "raises":
            raise RuntimeError("the motor is hot")
        state = np.array([0.0, self.steps, np.nan if self.wrong == "state" else 0.0])
        reward = np.nan if self.wrong == "reward" else float(action[0])
        return state, reward, self.steps == 3 and self.wrong != "cut", self.steps == 3 and self.wrong == "cut", {}


def test_truth_with_ends_bounds_and_discount(log):
    settings = {**SETTINGS, "methods": "ds", "truth_episodes": 5, "gamma": 0.5}
    # The policy asks for 5, of which the environment takes 1: 1 + 1/2 + 1/4.
    truth = hambo.evaluate(log, lambda s: np.full((len(s), 1), 5.0), env=Counter(), **settings).to_dict()["truth"]
    assert truth == {"value": 1.75, "std_error": 0.0, "episodes": 5}


def test_the_truth_beside_a_ranking(log):
    ranking = hambo.rank(log, [SWING_UP, lambda s: np.zeros((len(s), 1))], env=heavier(), methods="ds", truth_episodes=3, **SETTINGS)
    assert [policy["truth"]["episodes"] for policy in ranking.policies] == [3, 3]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("raises", "raised RuntimeError: the motor is hot"),
        ("state", "a state is"),
        ("reward", "a step paid nan"),
        ("cut", "cuts its episodes after 3 steps, and the horizon is 10"),
    ],
)
def test_environments_that_go_wrong(log, wrong, words):
    env = Counter()
    env.wrong = wrong
    with pytest.raises(hambo.TaskError, match=words):
        hambo.evaluate(log, SWING_UP, env=env, methods="ds", truth_episodes=3, **SETTINGS)


def test_ids_of_gymnasium_are_stepped_side_by_side(log):
    gymnasium.register("Counter-v0", lambda: Counter())
    sizes = []

    def policy(states):
        sizes.append(len(states))
        return np.ones((len(states), 1))

    settings = {**SETTINGS, "methods": "ds", "truth_episodes": 70}
    truth = hambo.evaluate(log, policy, env="Counter-v0", **settings).to_dict()["truth"]
    assert truth["value"] == 3.0 and truth["episodes"] == 70
    assert sizes[-6:] == [64, 64, 64, 6, 6, 6]
