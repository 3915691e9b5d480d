"""`hambo demo`: the first thing that anybody runs."""


def test_the_bound_is_below_the_truth_and_sees_the_danger(demo):
    unsafe, safe = demo["policies"]
    for policy in (unsafe, safe):
        estimates = {e["method"]: e for e in policy["estimates"]}
        policy["dainf"] = estimates["dainf"]
        assert policy["dainf"]["lower_bound"] <= policy["truth"]
        for name in ("ds", "ts1", "tsinf", "mean"):
            assert policy["dainf"]["value"] <= estimates[name]["value"] + 3 * estimates[name]["std_error"], name
            assert estimates[name]["lower_bound"] is None
    assert unsafe["truth"] < safe["truth"]
    assert unsafe["dainf"]["lower_bound"] < safe["dainf"]["lower_bound"]
    assert sorted(path.name for path in demo["folder"].iterdir()) == ["report.html", "safe.html"]
