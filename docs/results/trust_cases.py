"""The cases of the suite: environment × evaluated policy × kind of data × size × seed, in an order whose every beginning is balanced.

Nothing here looks at a return.
"""
import zlib
from dataclasses import asdict, dataclass, replace

from trust_policies import DOPE, LIMIT, family, is_stochastic, policies

HORIZON = 200
ENVS = ["pendulum", "hopper", "halfcheetah"]
KINDS = ["own", "neighboring", "mixed", "cross"]
# Seeds of each kind of data and size, for every evaluated policy.
SMALL = {2_000: {"own": 2, "mixed": 1, "cross": 1}}
SEEDS = {
    "pendulum": {**SMALL, 10_000: {"own": 3, "mixed": 2, "cross": 2}, 100_000: {"own": 2, "mixed": 1, "cross": 1}},
    "hopper": {
        10_000: {"own": 2, "neighboring": 2, "mixed": 2, "cross": 1},
        100_000: {"own": 1, "neighboring": 1, "mixed": 1, "cross": 1},
    },
}
SEEDS["halfcheetah"] = SEEDS["hopper"]
# Standard deviations of the noise, in units of the largest action; each behavior has them by turns.
NOISE = [0.1, 0.3]
# Other ways to choose the confidence set, asked in every tenth case of a stratum for comparison.
VARIANTS = {"default": [], "one": ["--beta", "1"]}
EVERY = 10


@dataclass(frozen=True)
class Case:
    env: str
    policy: str
    kind: str
    n: int
    seed: int
    behaviors: tuple
    sampled: bool
    compared: bool = False

    @property
    def name(self):
        return f"{self.env}-{self.policy}-{self.kind}-{self.n}-{self.seed}"

    @property
    def data_seed(self):
        return zlib.crc32(self.name.encode()) % 1_000_000

    def collect(self):
        """What `hambo collect` is told, but for the policies' files."""
        noise = [] if self.sampled else ["--noise", *(f"{LIMIT[self.env] * x:g}" for x in NOISE)]
        how = ["--stochastic"] if self.sampled else noise
        return [*how, "--steps", str(self.n), "--horizon", str(HORIZON), "--seed", str(self.data_seed)]

    def described(self):
        return {**asdict(self), "name": self.name}


def cases():
    """All cases. Each lies at its share of its stratum (environment, kind, size), so that a run that is cut off is a fair sample."""
    placed = []
    for env in ENVS:
        for n, kinds in SEEDS[env].items():
            for kind, seeds in kinds.items():
                evaluated = [p for p in policies(env) if kind != "neighboring" or family(p) == "dope"]
                stratum = [case(env, policy, kind, n, seed) for policy in evaluated for seed in range(1, seeds + 1)]
                stratum.sort(key=lambda c: c.data_seed)
                for i, c in enumerate(stratum):
                    placed.append(((i + 0.5) / len(stratum), c.data_seed, replace(c, compared=i % EVERY == EVERY // 2)))
    return [c for _, _, c in sorted(placed, key=lambda p: p[:2])]


def case(env, policy, kind, n, seed):
    others = [p for p in policies(env) if p != policy and (family(p) == "sb3" or family(p) != family(policy))]
    turn = zlib.crc32(f"{env}-{policy}-{kind}-{n}-{seed}".encode())
    first, second = (others[(turn + i * (1 + turn // 97 % (len(others) - 1))) % len(others)] for i in range(2))
    sampled = False
    if kind == "own":
        # Agents with a distribution are logged with noise and with their own samples by turns, DOPE's with samples first.
        sampled, behaviors = is_stochastic(policy) and seed % 2 == (family(policy) == "dope"), (policy,)
    elif kind == "neighboring":
        k = int(policy.partition("-")[2])
        sampled, behaviors = True, tuple(f"dope-{j}" for j in (k - 2, k + 2) if j in DOPE)
    elif kind == "mixed":
        behaviors = (policy, first)
    else:
        behaviors = (first, second)
    return Case(env, policy, kind, n, seed, behaviors, sampled)


def runs():
    """Pairs of a case and a variant, in the order in which they are made."""
    for c in cases():
        for variant in VARIANTS if c.compared else ["default"]:
            yield c, variant
