#!/usr/bin/env python3
"""Evaluates policies on a Dask cluster: one task learns the model, one for each policy follows on it.

    pip install hambo "dask[distributed]"
    python sweep_with_dask.py pend.hdf5 builtin:swing-up builtin:swing-up,rate=1

`Client()` makes a cluster of processes on this machine; give it the address of a scheduler for one of many machines.
"""

import sys

from distributed import Client

import hambo

log, *policies = [word for word in sys.argv[1:] if word != "--small"]
settings = {"env": "pendulum", "effort": "quick", "methods": "ca", "seed": 1, "threads": 1, "device": "cpu"}
small = {"model_config": {"hidden": [16], "steps": 200, "folds": 2}, "search_config": {"iterations": 5}, "rollouts": 100}
if "--small" in sys.argv:  # a moment instead of minutes, and no answer that one would believe
    settings |= small


def learned() -> hambo.Model:
    return hambo.fit(log, **settings)


def bound(model: hambo.Model, policy: str) -> tuple[str, float | None, str | None]:
    result = model.evaluate(policy, horizon=50)
    return policy, result.lower_bound, result.evidence


if __name__ == "__main__":
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        model = client.submit(learned)
        for policy, lower_bound, evidence in client.gather([client.submit(bound, model, policy) for policy in policies]):
            print(policy, lower_bound, evidence)
