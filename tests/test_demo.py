"""`hambo demo`: the first thing that anybody runs."""


def test_pessimism_sees_the_danger_that_neutral_estimates_overlook(demo):
    unsafe, safe = demo["policies"]
    assert unsafe["truth"] < demo["threshold"] < safe["truth"]
    for policy in (unsafe, safe):
        policy["by"] = {e["method"]: e for e in policy["estimates"]}
        assert policy["by"]["ca"]["lower_bound"] <= policy["truth"]
        for name in ("ds", "ts1", "tsinf", "mean"):
            assert policy["by"][name]["lower_bound"] is None
    assert unsafe["by"]["mean"]["value"] >= demo["threshold"], "the neutral estimate calls it safe"
    assert unsafe["by"]["ca"]["lower_bound"] < demo["threshold"], "the bound does not"
    assert safe["by"]["ca"]["lower_bound"] >= demo["threshold"], "nor does it call everything unsafe"
    assert sorted(path.name for path in demo["folder"].iterdir()) == ["report.html", "safe.html"]
