"""Exact Gaussian processes: seconds to fit 2000 rows and to predict 1000, against scikit-learn and GPyTorch.

    V/bin/pip install scikit-learn gpytorch        # V: the environment of bench/run
    cargo build --release -p hambo-bench
    V/bin/python bench/gp.py --threads 2

An RBF kernel with given hyper-parameters, 6 inputs, 3 outputs that share them, everything in f64. scikit-learn fits its
three outputs at once (`predict(return_std=True)`), as hambo does; GPyTorch is timed with its three outputs as a batch with
shared hyper-parameters and also with one output alone, whose time is a lower limit for any use of it; both with exact
Cholesky factors, once with its caches (`fast_pred_var`) and once without, whichever is faster. The sides take turns, round by
round, on the same cores; each is measured by its fastest run and its median. Sums of means and deviations must agree to 1e-6.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import measure

HERE = Path(__file__).resolve().parent
N, WIDTH, OUTPUTS, ROWS = 2000, 6, 3, 1000
SCALE, NOISE = 1.5, 0.01  # length scale, variance of the noise


def inputs():
    """The same numbers for all, as f32 in the file that hambo reads."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, WIDTH)).astype("<f4")
    y = np.stack([np.sin(x[:, 0] + j) * x[:, j + 1] for j in range(OUTPUTS)], 1)
    y = (y + 0.1 * rng.normal(size=y.shape)).astype("<f4")
    q = rng.normal(size=(ROWS, WIDTH)).astype("<f4")
    (HERE / "data").mkdir(exist_ok=True)
    (HERE / "data/gp.bin").write_bytes(b"".join(part.tobytes() for part in (x, y, q)))
    return [part.astype(np.float64) for part in (x, y, q)]


def timed(work, times):
    seconds, result = [], None
    for _ in range(times):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def scikit(x, y, q):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    gp = GaussianProcessRegressor(RBF(SCALE), alpha=NOISE, optimizer=None)
    fits, _ = timed(lambda: gp.fit(x, y), 2)
    predictions, (mean, std) = timed(lambda: gp.predict(q, return_std=True), 4)
    return {"fit": fits, "predict": predictions, "check": {"mean": mean.sum(), "std": std[:, 0].sum()}}


def torch_gp(x, y, q, threads, fast, one):
    import gpytorch
    import torch

    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float64)
    batch = torch.Size([]) if one else torch.Size([OUTPUTS])

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean(batch_shape=batch)
            self.covar_module = gpytorch.kernels.RBFKernel()  # one kernel for all outputs
            self.covar_module.lengthscale = SCALE

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x, q = torch.tensor(x), torch.tensor(q)
    y = torch.tensor(y[:, 0]) if one else torch.tensor(y.T.copy())
    settings = [
        gpytorch.settings.max_cholesky_size(10 * N),
        gpytorch.settings.fast_pred_var(fast),
        gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False),
    ]

    def build():
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        likelihood.noise = NOISE
        model = Model(x, y, likelihood)
        model.eval()
        return model

    def fit():
        """The first prediction computes and keeps what does not depend on the rows: one row shows its price."""
        model = build()
        posterior = model(q[:1])
        return model, posterior.mean, posterior.variance

    with torch.no_grad(), settings[0], settings[1], settings[2]:
        fits, (model, _, _) = timed(fit, 2)

        def predict():
            posterior = model(q)
            return posterior.mean.numpy(), posterior.variance.sqrt().numpy()

        predictions, (mean, std) = timed(predict, 4)
    std = std if one else std[0]
    return {"fit": fits, "predict": predictions, "check": {"mean": mean.sum(), "std": std.sum()}}


def hambo(threads, seconds):
    program = HERE.parent / "target/release/hambo-bench"
    line = [program, "--work", "gp", "--threads", str(threads), "--seconds", str(seconds), "--data", HERE / "data"]
    return json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    measure.keep_to_cores(options.threads)
    x, y, q = inputs()
    sides = {
        "hambo": lambda: hambo(options.threads, 1.5),
        "scikit-learn": lambda: scikit(x, y, q),
        "GPyTorch": lambda: torch_gp(x, y, q, options.threads, False, False),
        "GPyTorch, fast_pred_var": lambda: torch_gp(x, y, q, options.threads, True, False),
        "GPyTorch, one output": lambda: torch_gp(x, y, q, options.threads, False, True),
    }
    found = {name: {"fit": [], "predict": []} for name in sides}
    for number in range(options.rounds):
        for name, side in sides.items():
            result = side()
            for what in ("fit", "predict"):
                found[name][what] += result[what]
            found[name]["check"] = result["check"]
            print(f"round {number + 1}: {name} {json.dumps(result['check'])}", file=sys.stderr)
    print(f"| n = {N}, {ROWS} rows, {OUTPUTS} outputs | fit, ms (median) | predict, ms (median) | hambo is faster: fit | predict |")
    print("|---|---|---|---|---|")
    ours = found["hambo"]
    for name, times in found.items():
        cells = [f"{1e3 * min(times[w]):.1f} ({1e3 * statistics.median(times[w]):.1f})" for w in ("fit", "predict")]
        for what in ("fit", "predict"):
            best = min(times[what]) / min(ours[what])
            median = statistics.median(times[what]) / statistics.median(ours[what])
            cells.append(f"{best:.2f} ({median:.2f})")
        print(f"| {name} | {' | '.join(cells)} |")
    for name, times in found.items():
        for what, value in times["check"].items():
            if name == "GPyTorch, one output" and what == "mean":
                continue  # the mean of one output is not that of three
            if abs(value - ours["check"][what]) > 1e-6 * abs(value) + 1e-6:
                sys.exit(f"{name} has another {what}: {value} instead of {ours['check'][what]}")


if __name__ == "__main__":
    main()
