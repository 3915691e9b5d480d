"""`hambo return` against the same controller in gymnasium."""

import gymnasium
import numpy as np

EPISODES = 400
HORIZON = 200


def swing_up(observation, energy=0.3, angle=8.0, rate=2.0, switch=0.7):
    """Pumps energy until the pendulum is near the top, then balances it."""
    cos, sin, speed = (float(x) for x in observation)
    if cos > switch:
        torque = -(angle * np.arctan2(sin, cos) + rate * speed)
    else:
        torque = energy * speed * (15 - speed**2 / 2 - 15 * cos)
    return np.array([np.clip(torque, -2, 2)], dtype=np.float32)


def returns_in_gymnasium(**gains):
    env = gymnasium.make("Pendulum-v1").unwrapped
    returns = np.zeros(EPISODES)
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=episode)
        for _ in range(HORIZON):
            observation, reward, *_ = env.step(swing_up(observation, **gains))
            returns[episode] += reward
    return returns


def assert_agrees(ours, theirs):
    theirs_error = theirs.std(ddof=1) / np.sqrt(len(theirs))
    difference = ours["value"] - theirs.mean()
    assert abs(difference) < 4 * np.hypot(ours["std_error"], theirs_error), (ours, theirs.mean(), theirs_error)
    assert 0.8 < ours["std"] / theirs.std(ddof=1) < 1.25


def test_swing_up_earns_what_it_earns_in_gymnasium(hambo):
    ours = hambo.json(f"return --env pendulum --policy builtin:swing-up --horizon {HORIZON} --episodes 4000 --seed 3")
    assert_agrees(ours, returns_in_gymnasium())


def test_gains_mean_the_same(hambo):
    policy = "builtin:swing-up,angle=2,rate=0.5,energy=0.1,switch=0.8"
    ours = hambo.json(f"return --env pendulum --policy {policy} --horizon {HORIZON} --episodes 4000 --seed 3")
    assert_agrees(ours, returns_in_gymnasium(angle=2.0, rate=0.5, energy=0.1, switch=0.8))
