"""The package and the command say the same, to the last digit."""

import json
import subprocess

import numpy as np
import pytest
from conftest import SWING_UP, run

import hambo

FLAGS = "--env pendulum --horizon 10 --rollouts 100 --device cpu --model-config model.json --search-config search.json"


def numbers(told):
    """All but what differs from run to run, and what only a report has."""
    return {name: value for name, value in told.items() if name not in ("seconds", "explanation")}


@pytest.fixture(scope="module")
def by_command(place):
    words = f"evaluate --data pend.hdf5 --policy {SWING_UP} {FLAGS} --seed 3 --threshold -160 --json"
    return json.loads(run(*words.split(), cwd=place, code=1))


def test_from_a_file(by_command, log, pendulum):
    result = hambo.evaluate(log, SWING_UP, seed=3, threshold=-160, **pendulum)
    assert numbers(result.to_dict()) == numbers(by_command)


def test_from_arrays(by_command, arrays, pendulum):
    told = hambo.evaluate(arrays, SWING_UP, seed=3, threshold=-160, **pendulum).to_dict()
    assert told["data"].pop("sha256") is None
    expected = json.loads(json.dumps(by_command))
    del expected["data"]["sha256"]
    assert numbers(told) == numbers(expected)


def test_the_folder_is_the_commands(place, log, pendulum, tmp_path):
    """`out=`, `save` and `--out` leave the same files, and the last two the same bits of the model."""
    run(*f"evaluate --data pend.hdf5 --policy {SWING_UP} {FLAGS} --out {tmp_path}/a".split(), cwd=place)
    result = hambo.evaluate(log, SWING_UP, out=tmp_path / "b", **pendulum)
    result.save(tmp_path / "c")
    names = {"report.html", "summary.md", "result.json", "model.json", "model.safetensors"}
    for folder in "abc":
        assert names <= {file.name for file in (tmp_path / folder).iterdir()}
        told = json.loads((tmp_path / folder / "result.json").read_text())
        first = json.loads((tmp_path / "a" / "result.json").read_text())
        del told["seconds"], first["seconds"]
        assert told == first
        for name in ("model.json", "model.safetensors"):
            assert (tmp_path / folder / name).read_bytes() == (tmp_path / "a" / name).read_bytes()


def test_rankings(place, log, pendulum):
    policies = [f"{SWING_UP},rate=1", SWING_UP]
    words = ["rank", "--data", "pend.hdf5", "--policies", *policies, *FLAGS.split(), "--json"]
    by_command = json.loads(run(*words, cwd=place))
    ranking = hambo.rank(log, policies, **pendulum)
    assert numbers(ranking.to_dict()) == numbers(by_command)
    assert ranking.best == by_command["policies"][0]["name"]
    assert len(ranking.to_frame()) == 2


def test_a_fitted_model(log, pendulum):
    settings = {name: value for name, value in pendulum.items() if name != "horizon"}
    model = hambo.fit(log, **settings)
    direct = hambo.evaluate(log, SWING_UP, **pendulum)
    fitted = model.evaluate(SWING_UP, horizon=10)
    assert fitted.lower_bound == direct.lower_bound
    assert model.evaluate(SWING_UP, horizon=5, methods="ds").estimates[0].method == "ds"


def test_inspections(place, log):
    assert repr(hambo.inspect(log)) + "\n" == run("inspect", log, cwd=place)
    told = json.loads(run("inspect", log, "--policy", SWING_UP, "--json", cwd=place))
    assert hambo.inspect(log, policy=SWING_UP).to_dict() == told


def test_the_command_comes_with_the_package(command, place):
    words = f"evaluate --data pend.hdf5 --policy {SWING_UP} {FLAGS} --method ds --json".split()
    done = subprocess.run([command, *words], cwd=place, capture_output=True, text=True, check=True)
    told, expected = json.loads(done.stdout), json.loads(run(*words, cwd=place))
    assert numbers(told) == numbers(expected)
    assert subprocess.run([command, "--version"], capture_output=True, check=True).stdout.startswith(b"hambo ")
    wrong = subprocess.run([command, "evaluate", "--nonsense"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "--nonsense" in wrong.stderr
    words = f"evaluate --data pend.hdf5 --policy {SWING_UP} {FLAGS} --threshold 0".split()
    assert subprocess.run([command, *words], cwd=place, capture_output=True, check=False).returncode == 1


def test_a_result_tells_itself(log, pendulum):
    result = hambo.evaluate(log, SWING_UP, threshold=-160, **pendulum)
    assert repr(result).splitlines()[-1] == result.summary
    assert result.verdict in ("meets", "fails", "not enough evidence")
    assert result.evidence in ("supported", "extrapolated", "unsupported")
    assert result.warnings and all(isinstance(warning, str) for warning in result.warnings)
    assert [e.method for e in result.estimates] == ["ca", "dainf", "ds", "ts1", "tsinf", "mean"]
    assert result.estimates[0].lower_bound == result.lower_bound
    frame = result.to_frame()
    assert list(frame["method"]) == [e.method for e in result.estimates]
    assert np.isclose(frame["value"][0], result.estimates[0].value)
    assert result._repr_html_().startswith("<iframe") and "<html" in result.to_html()
    assert result.summary in result.to_markdown()
    import matplotlib

    matplotlib.use("agg")
    assert result.plot().get_title() == result.summary
