"""Posteriors and likelihoods of scikit-learn and GPyTorch, for tests/gp.rs: writes gp.json beside this file.

    pip install scikit-learn gpytorch mpmath
    python make_gp.py

Both compute in f64. For given hyper-parameters they agree with each other to 1e-8 here, which is asserted. For learned ones
the number that counts is scikit-learn's likelihood after 10 restarts, within the bounds that hambo has, too. Without noise it is
the bound on the noise that decides how near to singular the kernel matrix may get, and with it what f64 can tell: at a variance
of 1e-10 scikit-learn reports 1992.996 for hyper-parameters whose likelihood is 1992.823 (40 digits, mpmath), the luckiest rounding of
its restarts. At 1e-7 the two agree to 1e-3, which is asserted for every set.
"""

import json
import pathlib
import warnings

import gpytorch
import mpmath
import numpy as np
import sklearn
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

torch.set_default_dtype(torch.float64)
warnings.simplefilter("ignore", ConvergenceWarning)
KERNELS = ["linear", "rbf", "matern32", "matern52"]
NOISE_BOUNDS = (1e-7, 1e5)  # variances; all other bounds are scikit-learn's defaults, (1e-5, 1e5)


def scikit_kernel(family, variance, scales):
    scales = np.array(scales) if len(scales) > 1 else scales[0]
    inner = {
        "linear": lambda: DotProduct(sigma_0=0.0, sigma_0_bounds="fixed"),
        "rbf": lambda: RBF(scales),
        "matern32": lambda: Matern(scales, nu=1.5),
        "matern52": lambda: Matern(scales, nu=2.5),
    }[family]()
    return ConstantKernel(variance) * inner


def scikit(family, variance, scales, noise, x, y, q):
    kernel = scikit_kernel(family, variance, scales)
    gp = GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None).fit(x, y)
    mean, std = gp.predict(q, return_std=True)
    return mean, std[:, 0], gp.log_marginal_likelihood_value_


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def gpytorch_posterior(family, variance, scales, noise, x, y, q):
    """One output after another."""
    x, q = torch.tensor(x), torch.tensor(q)
    means, likelihoods = [], []
    for j in range(y.shape[1]):
        ard = len(scales) if len(scales) > 1 else None
        if family == "linear":
            kernel = gpytorch.kernels.LinearKernel()
            kernel.variance = variance
        else:
            inner = {
                "rbf": lambda: gpytorch.kernels.RBFKernel(ard_num_dims=ard),
                "matern32": lambda: gpytorch.kernels.MaternKernel(1.5, ard_num_dims=ard),
                "matern52": lambda: gpytorch.kernels.MaternKernel(2.5, ard_num_dims=ard),
            }[family]()
            inner.lengthscale = torch.tensor(scales)
            kernel = gpytorch.kernels.ScaleKernel(inner)
            kernel.outputscale = variance
        likelihood = gpytorch.likelihoods.GaussianLikelihood(
            noise_constraint=gpytorch.constraints.GreaterThan(1e-12)
        )
        likelihood.noise = noise**2
        target = torch.tensor(y[:, j])
        model = Exact(x, target, likelihood, kernel)
        with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
            model.train(), likelihood.train()
            mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
            likelihoods.append(float(mll(model(x), target)) * len(target))
            model.eval(), likelihood.eval()
            posterior = model(q)
            means.append(posterior.mean.numpy())
            std = posterior.variance.sqrt().numpy()
    return np.stack(means, 1), std, sum(likelihoods)


def data(rng, n, width, noise):
    """Smooth functions of x with noise, two outputs."""
    x = rng.normal(size=(n, width))
    f = np.stack([np.sin(1.5 * x[:, 0]) + 0.3 * x[:, 1], x[:, 0] * np.cos(x[:, -1])], 1)
    return x, f + noise * rng.normal(size=f.shape)


def given(rng):
    cases = []
    for family in KERNELS:
        for width, scales in [(3, [1.3]), (3, [0.7, 1.9, 4.2]), (1, [0.6])]:
            if family == "linear" and len(scales) > 1:
                continue
            for n, noise in [(1, 0.1), (40, 0.05), (150, 0.2)]:
                x, y = data(rng, n, width, noise) if width > 1 else wide(rng, n, noise)
                q = rng.normal(size=(6, width)) * 1.5
                variance = 1.7
                ours = scikit(family, variance, scales, noise, x, y, q)
                theirs = gpytorch_posterior(family, variance, scales, noise, x, y, q)
                for a, b in zip(ours, theirs):
                    assert np.allclose(a, b, rtol=1e-8, atol=1e-7), (family, scales, n, np.abs(a - b).max())
                mean, std, likelihood = ours
                cases.append(
                    {
                        "family": family, "variance": variance, "length_scales": scales, "noise_std": noise,
                        "width": width, "x": x.ravel().tolist(), "y": y.ravel().tolist(), "queries": q.ravel().tolist(),
                        "mean": mean.ravel().tolist(), "std": std.tolist(), "log_likelihood": float(likelihood),
                        "gpytorch_mean": theirs[0].ravel().tolist(), "gpytorch_std": theirs[1].tolist(),
                        "gpytorch_log_likelihood": float(theirs[2]),
                    }
                )  # fmt: skip
    return cases


def wide(rng, n, noise):
    x, y = data(rng, n, 2, noise)
    return x[:, :1], y


def pendulum(rng, n):
    """Changes of Pendulum-v1 from uniform states and actions, without noise but that of f32."""
    angle, speed = rng.uniform(-np.pi, np.pi, n), rng.uniform(-6, 6, n)
    torque = rng.uniform(-2, 2, n)
    faster = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * torque), -8, 8)
    moved = angle + 0.05 * faster
    x = np.stack([np.cos(angle), np.sin(angle), speed, torque], 1)
    y = np.stack([np.cos(moved) - x[:, 0], np.sin(moved) - x[:, 1], faster - speed], 1)
    return standard(x), standard(y)


def noisy(rng, data):
    x, y = data
    return x, y + 0.01 * rng.normal(size=y.shape)


def standard(v):
    return (v - v.mean(0)) / v.std(0)


def learned(rng):
    sets = {
        "smooth": (*data(rng, 120, 3, 0.1), "rbf", True),
        "friedman": (*friedman(rng, 150), "matern52", True),
        "pendulum, without noise": (*pendulum(rng, 120), "rbf", False),
        "pendulum": (*noisy(rng, pendulum(rng, 120)), "rbf", False),
    }
    cases = []
    for name, (x, y, family, ard) in sets.items():
        start = [1.0] * (x.shape[1] if ard else 1)
        kernel = scikit_kernel(family, 1.0, start) + WhiteKernel(1e-2, NOISE_BOUNDS)
        gp = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=10, random_state=0).fit(x, y)
        rounding = gp.log_marginal_likelihood_value_ - exact_likelihood(gp.kernel_, x, y)
        assert abs(rounding) < 1e-3, (name, rounding)
        cases.append(
            {
                "name": name, "family": family, "ard": ard, "width": x.shape[1],
                "x": x.ravel().tolist(), "y": y.ravel().tolist(),
                "log_likelihood": float(gp.log_marginal_likelihood_value_), "kernel": str(gp.kernel_),
            }
        )  # fmt: skip
        print(name, gp.log_marginal_likelihood_value_, gp.kernel_, f"rounding {rounding:.1e}")
    return cases


def exact_likelihood(kernel, x, y):
    """ln p(y | x) with 40 digits."""
    mpmath.mp.dps = 40
    variance, inner, noise = kernel.k1.k1.constant_value, kernel.k1.k2, kernel.k2.noise_level
    scales = np.broadcast_to(inner.length_scale, x.shape[1])
    rows = [[mpmath.mpf(float(v)) / mpmath.mpf(float(s)) for v, s in zip(row, scales)] for row in x]

    def k(a, b):
        squared = mpmath.fsum((p - q) ** 2 for p, q in zip(a, b))
        if isinstance(inner, Matern):
            r = mpmath.sqrt(5 * squared)  # ν = 5/2
            return (1 + r + r * r / 3) * mpmath.exp(-r)
        return mpmath.exp(-squared / 2)

    n = len(rows)
    lower = []
    for i in range(n):
        lower.append([])
        for j in range(i + 1):
            entry = mpmath.mpf(variance) * k(rows[i], rows[j]) + (mpmath.mpf(noise) if i == j else 0)
            rest = entry - mpmath.fdot(lower[i][:j], lower[j][:j])
            lower[i].append(mpmath.sqrt(rest) if i == j else rest / lower[j][j])
    fit = mpmath.mpf(0)
    for target in y.T:
        solved = []
        for i in range(n):
            solved.append((mpmath.mpf(float(target[i])) - mpmath.fdot(lower[i][:i], solved)) / lower[i][i])
        fit += mpmath.fdot(solved, solved)
    log_det = 2 * mpmath.fsum(mpmath.log(lower[i][i]) for i in range(n))
    return float(-fit / 2 - y.shape[1] * (log_det + n * mpmath.log(2 * mpmath.pi)) / 2)


def friedman(rng, n):
    x = rng.uniform(size=(n, 5))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return standard(x), standard((y + rng.normal(size=n))[:, None])


if __name__ == "__main__":
    rng = np.random.default_rng(4)
    result = {
        "made_with": {"scikit-learn": sklearn.__version__, "gpytorch": gpytorch.__version__, "torch": torch.__version__},
        "given": given(rng),
        "learned": learned(rng),
    }
    (pathlib.Path(__file__).parent / "gp.json").write_text(json.dumps(result) + "\n")
