"""Writes pendulum.csv: five episodes of 200 random actions in gymnasium's Pendulum-v1.

    pip install gymnasium==1.4.0 && python make_pendulum.py > pendulum.csv
"""
import gymnasium
import numpy as np

env = gymnasium.make("Pendulum-v1").unwrapped
rng = np.random.default_rng(0)
print("start,angle,velocity,action,reward,cos,sin,speed")
for episode in range(5):
    env.reset(seed=episode)
    for t in range(200):
        angle, velocity = (float(x) for x in env.state)
        action = np.float32(rng.uniform(-2.5, 2.5))
        obs, reward, *_ = env.step(np.array([action], dtype=np.float32))
        row = [angle, velocity, float(action), float(reward), *(float(x) for x in obs)]
        print(int(t == 0), *(repr(x) for x in row), sep=",")
