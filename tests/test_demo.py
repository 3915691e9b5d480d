"""`hambo demo`: the first thing that anybody runs."""


def test_the_bound_is_below_the_truth_and_sees_the_danger(hambo):
    before = sorted(hambo.folder.iterdir())
    found = hambo.json("demo")
    unsafe, safe = found["policies"]
    for policy in (unsafe, safe):
        conservative, *neutral = policy["estimates"]
        assert conservative["method"] == "dainf"
        assert [e["method"] for e in neutral] == ["ds", "ts1", "tsinf", "mean"]
        assert conservative["lower_bound"] <= policy["truth"]
        assert all(conservative["value"] <= e["value"] + 3 * e["std_error"] for e in neutral)
    assert unsafe["truth"] < safe["truth"]
    assert unsafe["estimates"][0]["lower_bound"] < safe["estimates"][0]["lower_bound"]
    assert sorted(hambo.folder.iterdir()) == before
