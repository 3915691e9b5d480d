"""`hambo demo`: the first thing that anybody runs."""


def test_pessimism_sees_the_danger_that_neutral_estimates_overlook(hambo):
    before = sorted(hambo.folder.iterdir())
    found = hambo.json("demo")
    unsafe, safe = found["policies"]
    assert unsafe["truth"] < found["threshold"] < safe["truth"]
    for policy in (unsafe, safe):
        policy["by"] = {e["method"]: e for e in policy["estimates"]}
        assert policy["by"]["ca"]["lower_bound"] <= policy["truth"]
        for name in ("ds", "ts1", "tsinf", "mean"):
            assert policy["by"][name]["lower_bound"] is None
    assert unsafe["by"]["mean"]["value"] >= found["threshold"], "the neutral estimate calls it safe"
    assert unsafe["by"]["ca"]["lower_bound"] < found["threshold"], "the bound does not"
    assert safe["by"]["ca"]["lower_bound"] >= found["threshold"], "nor does it call everything unsafe"
    assert sorted(hambo.folder.iterdir()) == before
