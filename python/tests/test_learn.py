"""Learning a policy: the same as by the command, told as it goes on, and taken up again."""

import json
from pathlib import Path

import pytest
from conftest import SWING_UP, run

import hambo

LEARNING = {"starts": 20, "updates": 20, "batch": 16, "hidden": [8], "checkpoints": 3, "measured": 50}
FLAGS = "--env pendulum --horizon 10 --rollouts 100 --device cpu --model-config model.json --search-config search.json --steps 120 --seed 2"


@pytest.fixture(scope="module")
def settings(pendulum):
    return {**pendulum, "adversary": "ca", "steps": 120, "learn_config": LEARNING, "seed": 2}


@pytest.fixture(scope="module")
def learned(log, settings, tmp_path_factory):
    return hambo.learn(log, out=tmp_path_factory.mktemp("learned"), **settings)


def numbers(told):
    return {name: value for name, value in told.items() if name not in ("seconds", "policy")}


@pytest.mark.parametrize("adversary", ["ca", "da1"])
def test_the_same_as_by_the_command(place, log, settings, learned, tmp_path, adversary):
    (place / "learn.json").write_text(json.dumps(LEARNING))
    words = f"learn --data pend.hdf5 --adversary {adversary} --learn-config learn.json {FLAGS} --out {tmp_path}/a --json"
    by_command = json.loads(run(*words.split(), cwd=place))
    ours = learned if adversary == "ca" else hambo.learn(log, out=tmp_path / "b", **{**settings, "adversary": "da1"})
    assert numbers(ours.to_dict()) == numbers(by_command)
    folder = ours.policy_file.parent
    for name in ("policy.safetensors", "policy.onnx", "curve.csv", "model.safetensors"):
        assert (folder / name).read_bytes() == (tmp_path / "a" / name).read_bytes(), name


def test_what_was_learned(learned, log, pendulum):
    assert isinstance(learned, hambo.Result) and learned.policy == str(learned.policy_file)
    assert [point["step"] for point in learned.curve] == [40, 80, 120]
    assert len(learned.bounds) == 2 and learned.lower_bound == learned.bounds[0]["lower_bound"]
    assert learned.config["steps"] == 120 and learned.config["hidden"] == [8]
    assert learned.evidence != "supported" and any("learned from these logs" in warning for warning in learned.warnings)
    assert "Learning, measured in the model alone" in repr(learned)
    assert hambo.evaluate(log, learned.policy_file, methods="ds", **pendulum).estimates[0].value is not None


def test_it_goes_on_where_it_was_stopped(log, settings, learned, tmp_path):
    stages = set()

    def stop_in_the_middle(stage, done, total, _):
        stages.add(stage)
        if stage.startswith("learning") and 0 < done < total:
            raise KeyboardInterrupt

    slow = {**settings, "steps": 4000, "learn_config": {**LEARNING, "checkpoints": 10}}
    with pytest.raises(KeyboardInterrupt):
        hambo.learn(log, out=tmp_path / "stopped", save_every=0, progress=stop_in_the_middle, **slow)
    assert any((tmp_path / "stopped" / "unfinished").iterdir()) and len(stages) > 1
    resumed = hambo.learn(log, out=tmp_path / "stopped", save_every=0, **slow)
    whole = hambo.learn(log, out=tmp_path / "whole", **slow)
    assert numbers(resumed.to_dict()) == numbers(whole.to_dict())


WRONG = [
    ({"adversary": "sac"}, "sac"),
    ({"adversary": None}, "adversary = None"),
    ({"adversary": 3}, "adversary = 3"),
    ({"out": None}, "out: expected a folder"),
    ({"steps": 0}, "steps"),
    ({"steps": 1.5}, "steps = 1.5"),
    ({"steps": "many"}, "steps = 'many'"),
    ({"learn_config": {"nonsense": 1}}, "nonsense"),
    ({"learn_config": {"starts": 0}}, "learn.starts"),
    ({"learn_config": {"hidden": "wide"}}, "settings of a learning"),
    ({"learn_config": {"discount": 2}}, "learn.discount"),
    ({"learn_config": {"batch": object()}}, "learn_config"),
    ({"learn_config": 7}, "learn_config = 7"),
    ({"learn_config": "no-such.json"}, "no-such.json"),
    ({"stochastic": True}, "stochastic"),
    ({"policy_noise": 0.1}, "policy-noise"),
    ({"normalizer": "none"}, "normalizer"),
    ({"curves": True}, "curves"),
    ({"env": None, "horizon": None}, "horizon"),
    ({"horizon": 0.5}, "horizon = 0.5"),
    ({"env": None, "reward": "1"}, "nothing to learn|bounds"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_inputs(log, settings, tmp_path, number):
    change, words = WRONG[number]
    with pytest.raises(hambo.Error, match=words) as caught:
        hambo.learn(log, **{**settings, "out": tmp_path / "out", **change})
    assert "mistake in hambo" not in str(caught.value)


def test_settings_of_an_evaluation_do_not_know_those_of_learning(log, pendulum):
    with pytest.raises(TypeError, match="steps"):
        hambo.evaluate(log, SWING_UP, steps=3, **pendulum)
    with pytest.raises(TypeError, match="did you mean 'learn_config'"):
        hambo.learn(log, adversary="ca", out=Path("x"), learn_confg={}, **pendulum)
