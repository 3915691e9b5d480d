"""Every kind of policy."""

import gymnasium
import numpy as np
import pytest
from conftest import SWING_UP, TINY

import hambo


@pytest.fixture(scope="module")
def model(log, pendulum):
    return hambo.fit(log, **{name: value for name, value in pendulum.items() if name != "horizon"})


def bound(model, policy, **settings):
    return model.evaluate(policy, horizon=10, **settings).lower_bound


def brake(states):
    return np.clip(-0.5 * states[:, 2:3], -2, 2)


def test_a_function_acts_like_the_network_that_it_repeats(model):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1), torch.nn.Tanh())

    def called(states):
        with torch.no_grad():
            return network(torch.from_numpy(states))

    native = model.evaluate(network, horizon=10)
    function = model.evaluate(called, horizon=10)
    assert native.policy == "Sequential (torch)" and function.policy == "called"
    for ours, theirs in zip(native.estimates, function.estimates, strict=True):
        # Central differences in place of gradients give the adversary another way.
        assert ours.value == pytest.approx(theirs.value, rel=0.1 if ours.method == "ca" else 1e-4)


def test_functions_are_called_once_a_batch_and_step(model):
    rows = []

    def counting(states):
        assert states.dtype == np.float32 and states.shape[1] == 3
        rows.append(len(states))
        return brake(states)

    model.evaluate(counting, horizon=10, methods="ds")
    # The first of the logged states, the survey of where the policy goes, and the rollouts themselves.
    assert len(rows) < 60 and max(rows) >= 100


def test_torch_modules_that_are_no_plain_mlp_are_called(model):
    torch = pytest.importorskip("torch")

    class Brake(torch.nn.Module):
        def forward(self, states):
            return torch.clamp(-0.5 * states[:, 2:3], -2, 2)

    assert bound(model, Brake(), methods="dainf") == pytest.approx(bound(model, brake, methods="dainf"), rel=1e-6)
    hooked = torch.nn.Sequential(torch.nn.Linear(3, 1))
    hooked.register_forward_hook(lambda module, inputs, output: output * 0)
    still = bound(model, lambda states: np.zeros((len(states), 1)), methods="dainf")
    assert bound(model, hooked, methods="dainf") == still


def test_torch_mlps_become_networks(model):
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(8, 1, bias=False)]
    network = torch.nn.Sequential(torch.nn.Sequential(*layers), torch.nn.Identity()).eval()
    torch.nn.init.normal_(layers[0].weight)

    def called(states):
        with torch.no_grad():
            return network(torch.from_numpy(states))

    assert bound(model, network, methods="dainf") == pytest.approx(bound(model, called, methods="dainf"), rel=1e-4)


def test_stable_baselines(model, tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    agent = sb3.SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [8]}, seed=0, device="cpu")
    agent.save(tmp_path / "agent.zip")
    result = model.evaluate(agent, horizon=10)
    assert result.lower_bound == bound(model, tmp_path / "agent.zip", normalizer="none")
    assert result.policy == "SAC (Stable-Baselines3)"

    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
    agent = sb3.PPO("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, n_steps=64, batch_size=64, seed=0, device="cpu")
    agent.learn(64)
    agent.save(tmp_path / "ppo.zip")
    env.save(tmp_path / "vecnormalize.pkl")
    assert bound(model, agent) == bound(model, tmp_path / "ppo.zip")
    assert bound(model, agent) != bound(model, tmp_path / "ppo.zip", normalizer="none")
    by_hand = bound(model, lambda s: agent.predict(env.normalize_obs(s), deterministic=True)[0], methods="dainf")
    assert bound(model, agent, methods="dainf") == pytest.approx(by_hand, rel=1e-4)
    assert bound(model, agent, stochastic=True, methods="dainf") != bound(model, agent, methods="dainf")


def test_d3rlpy(model, arrays):
    d3rlpy = pytest.importorskip("d3rlpy")
    names = ("observations", "actions", "rewards", "terminals")
    data = d3rlpy.dataset.MDPDataset(*(arrays[n] for n in names), timeouts=arrays["timeouts"].astype(np.float32))
    agent = d3rlpy.algos.TD3Config().create(device="cpu:0")
    agent.build_with_dataset(data)
    assert bound(model, agent, methods="dainf") == bound(model, lambda s: agent.predict(s), methods="dainf")


def test_several_kinds_in_one_ranking(log, pendulum):
    ranking = hambo.rank(log, [brake, SWING_UP], methods=["dainf"], **pendulum)
    assert {policy["name"] for policy in ranking.policies} == {"brake", SWING_UP}


def test_environments_of_gymnasium(log, arrays):
    settings = {"horizon": 10, "methods": "dainf", **TINY}
    ours = hambo.evaluate(log, SWING_UP, env="pendulum", **settings)
    for env in ("Pendulum-v1", gymnasium.make("Pendulum-v1")):
        assert hambo.evaluate(log, SWING_UP, env=env, **settings).lower_bound == ours.lower_bound
    # Another gravity is another environment: bounds and initial states are its own, the reward is the log's.
    told = hambo.evaluate(log, SWING_UP, env=gymnasium.make("Pendulum-v1", g=9.81), **settings).to_dict()
    assert told["task"] == "Pendulum-v1" and told["declared"]["reward"] == "learned"
    assert told["declared"]["action_high"] == [2.0] and told["declared"]["initial"] == "1000 given states"
    again = hambo.evaluate(log, SWING_UP, env=gymnasium.make("Pendulum-v1", g=9.81), **settings).to_dict()
    assert again["lower_bound"] == told["lower_bound"]
    truth = hambo.evaluate(log, SWING_UP, env="pendulum", truth_episodes=10, **settings).to_dict()["truth"]
    assert truth["episodes"] == 10


def test_the_answer_says_that_a_function_has_no_gradient(model):
    def told(policy):
        result = model.evaluate(policy, horizon=10, methods="ca", beta=1).to_dict()
        kinds = {candidate["optimiser"] for candidate in result["adversary"]["candidates"]}
        return kinds, [text for text in result["warnings"] if "without a gradient" in text]

    kinds, warnings = told(brake)
    assert kinds == {"pathwise"} and len(warnings) == 1 and "the policy brake" in warnings[0] and "differences" in warnings[0]

    def switch(states):
        return np.where(states[:, 2:3] > 0, -1.0, 1.0)

    kinds, warnings = told(switch)
    assert kinds == {"pathwise", "sac"} and len(warnings) == 1 and "the policy switch" in warnings[0] and "SAC" in warnings[0]
    assert told(SWING_UP) == ({"pathwise"}, [])
