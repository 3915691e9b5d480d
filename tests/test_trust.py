"""The suite of docs/results/trust.py: its cases, its statistics, and what it makes of other people's files."""

import collections
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT, asset

sys.path.insert(0, str(ROOT / "docs/results"))
import trust_cases
import trust_policies
import trust_table


def test_exact_intervals_are_those_of_the_binomial_distribution():
    assert trust_table.clopper_pearson(0, 10) == pytest.approx((0, 1 - 0.025**0.1))  # closed form
    assert trust_table.clopper_pearson(10, 10) == pytest.approx((0.025**0.1, 1))
    assert trust_table.clopper_pearson(5, 101) == pytest.approx((0.016267, 0.111755), abs=1e-6)  # scipy.stats.beta


def test_every_beginning_of_the_list_is_balanced():
    cases = trust_cases.cases()
    assert len(cases) >= 300 and len({c.name for c in cases}) == len(cases)
    whole = collections.Counter((c.env, c.kind, c.n) for c in cases)
    for end in range(20, len(cases), 20):
        part = collections.Counter((c.env, c.kind, c.n) for c in cases[:end])
        assert all(abs(part[s] - count * end / len(cases)) <= 1 for s, count in whole.items())


def test_data_are_of_the_kind_that_a_case_names():
    for case in trust_cases.cases():
        assert (case.policy in case.behaviors) == (case.kind in ("own", "mixed"))
        assert len(set(case.behaviors)) == len(case.behaviors)


def judged(method, value, bound):
    estimate = {"method": method, "value": value, "lower_bound": bound}
    return trust_table.judged(estimate, {"value": -100.0, "std_error": 1.0})


def test_a_bound_is_violated_beyond_three_standard_errors_of_the_truth():
    assert judged("ca", -90.0, -96.9)["violated"] and not judged("ca", -90.0, -97.1)["violated"]
    assert judged("ca", -99.9, -110.0)["value_above"] and not judged("ca", -100.1, -110.0)["value_above"]
    assert judged("ca", -99.9, -110.0)["gap"] == pytest.approx(0.1)


def test_a_bound_that_is_no_number_is_below_the_truth_and_infinitely_far():
    found = judged("dainf", None, None)
    assert not found["violated"] and found["gap"] is None
    row = {"numbers": {"dainf": found}, "evidence": None, "passes": False, "largest_size": 0.0, "seconds": 1.0}
    assert trust_table.summary([row], "dainf")["median_gap"] is None


def test_a_pickle_that_names_code_is_refused():
    with pytest.raises(pickle.UnpicklingError, match="not expected"):
        trust_policies.Arrays(io.BytesIO(pickle.dumps(subprocess.run))).load()


def test_dopes_policies_have_their_own_numbers(hambo, tmp_path, monkeypatch):
    path = asset("dope/hopper/4.pkl")
    monkeypatch.setenv("HAMBO_ASSETS", str(path.parents[2]))
    converted = trust_policies.path_of("hopper", "dope-4", tmp_path)
    with open(path, "rb") as file:
        ours, weight = trust_policies.Arrays(file).load(), "last_fc/weight"
    theirs = pickle.loads(path.read_bytes())  # arrays alone, or the line above had refused it
    np.testing.assert_array_equal(np.reshape(ours[weight].values, ours[weight].shape), theirs[weight])
    assert hambo.json(f"return --env hopper --policy {converted} --horizon 200 --episodes 50 --seed 1")["value"] == pytest.approx(513, abs=15)
