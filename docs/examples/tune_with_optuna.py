#!/usr/bin/env python3
"""Looks for the gains of a controller whose bound is highest, with Optuna, on one model of the logs.

    pip install hambo optuna
    python tune_with_optuna.py pend.hdf5 TRIALS

The best of many bounds is too good by chance: δ is divided by the number of trials, so that all of them hold together.
"""

import sys

import optuna

import hambo

log, trials = sys.argv[1], int(sys.argv[2])
settings = {"env": "pendulum", "effort": "quick", "methods": "ca", "delta": 0.05 / trials}
small = {"model_config": {"hidden": [16], "steps": 200, "folds": 2}, "search_config": {"iterations": 5}, "rollouts": 100}
if "--small" in sys.argv:  # a moment instead of minutes, and no answer that one would believe
    settings |= small
model = hambo.fit(log, **settings)


def bound(trial: optuna.Trial) -> float:
    gains = [f"{name}={trial.suggest_float(name, 0.5, 4.0)}" for name in ("angle", "rate")]
    result = model.evaluate("builtin:swing-up," + ",".join(gains), horizon=50)
    trial.set_user_attr("evidence", result.evidence)
    return float("-inf") if result.lower_bound is None else result.lower_bound


study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(bound, n_trials=trials)
print(f"best of {trials}: {study.best_params}, bound {study.best_value:.2f}, {study.best_trial.user_attrs['evidence']}")
