"""A sample of user code, which mypy reads with --strict; it is not run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import hambo


def brake(states: NDArray[np.float32]) -> NDArray[np.float32]:
    return -0.5 * states[:, 2:3]


def pays(states: NDArray[np.float32], actions: NDArray[np.float32], next_states: NDArray[np.float32]) -> NDArray[np.float32]:
    return -(states[:, 0] ** 2) - actions[:, 0] ** 2 + next_states[:, 1]


def main() -> int:
    data = hambo.Transitions(np.zeros((4, 3)), np.zeros((4, 1)), np.zeros(4), timeouts=[0, 0, 0, 1])
    result = hambo.evaluate(data, brake, horizon=10, reward="-s[0]^2", gamma=0.99, methods=["ca", "ds"], effort="quick")
    bound: float | None = result.lower_bound
    verdict: str | None = result.verdict
    best: float = max(estimate.value for estimate in result.estimates if estimate.value is not None)
    result.save("run")
    model: hambo.Model = hambo.fit("log.csv", columns={"state": ["x", "y"]}, seed=3)
    ranking: hambo.Ranking = model.rank([brake, "agent.zip"], horizon=10, threshold=-5)
    learned: hambo.Learned = hambo.learn(data, adversary="ca", out="learned", horizon=10, steps=100, reward=pays)
    again = hambo.evaluate(data, learned.policy_file, horizon=10, termination=lambda states: states[:, 0] > 1)
    steps: list[int] = [point["step"] for point in learned.curve]
    print(again.summary, steps)
    try:
        print(hambo.inspect("log.csv").to_dict()["transitions"], ranking.best, bound, best)
    except (hambo.DataError, hambo.Error) as error:
        print(error)
    return 0 if verdict == "meets" else 1
