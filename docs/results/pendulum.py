"""Makes every row of the table of bounds on Pendulum: one model a size and seed, asked in every way.

    python3 docs/results/pendulum.py --device cuda --out pendulum            # all of it
    python3 docs/results/pendulum.py --sizes 1000 --seeds 1 2 --rows ca da1  # a part

Every result is kept as JSON in the folder, and what is there is not computed again: the same command goes on after an
interruption. The table goes to standard output, as Markdown.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

POLICY = ["--env", "pendulum", "--policy", "builtin:swing-up", "--horizon", "200"]
# What is asked of the model of the first row, and how it is called in the table.
ROWS = {
    "ca": ("`ca`, β = trajectory, pathwise (the default)", "--method ca,dainf,ds,ts1,tsinf,mean"),
    "portfolio": ("`ca`, β = trajectory, pathwise and SAC", "--method ca --adversary portfolio"),
    "sac": ("`ca`, β = trajectory, SAC alone", "--method ca --adversary sac"),
    "one": ("`ca`, β = 1", "--method ca --beta 1"),
    "one-sac": ("`ca`, β = 1, SAC alone", "--method ca --beta 1 --adversary sac"),
    "gaussian": ("`ca`, β = gaussian", "--method ca --beta gaussian"),
    "conformal": ("`ca`, β = conformal", "--method ca --beta conformal"),
    "da1": ("`da1`", "--method da1"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hambo", default="target/release/hambo", help="the binary")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help=" ".join(ROWS))
    parser.add_argument("--truth", type=float, default=-149.18, help="the true return (100,000 episodes: -149.18)")
    parser.add_argument("--out", type=Path, default=Path("pendulum"), help="folder for data, models and results")
    options = parser.parse_args()
    results = {
        (n, row): [ask(options, n, seed, row) for seed in options.seeds]
        for n in options.sizes
        for row in dict.fromkeys(["ca", *options.rows])
    }
    print(table(options, results))


def ask(options, n, seed, row):
    """The result of one evaluation, from the folder if it is there."""
    folder = options.out / f"{n}-{seed}"
    path, data, model = folder / f"{row}.json", folder / "data.hdf5", folder / "model"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if not data.exists():
            run(options, f"collect --noise 0.5 1.0 --steps {n} --seed {seed} --out {data}", POLICY[:4])
        # The first row learns the model, the others are asked of the same.
        source = f"--fitted {model}" if (model / "result.json").exists() else f"--out {model}"
        line = f"evaluate --data {data} {ROWS[row][1]} {source} --seed {seed} --json"
        start = time.time()
        text = run(options, line, POLICY)
        path.with_suffix(".tmp").write_text(text)
        path.with_suffix(".tmp").rename(path)
        print(f"{n} transitions, seed {seed}, {row}: {time.time() - start:.1f} s", file=sys.stderr)
    return json.loads(path.read_text())


def run(options, line, more):
    command = [options.hambo, *line.split(), *more, "--device", options.device]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


def table(options, results):
    """`lower_bound` of every seed; above the truth in bold."""
    lines = ["| N | method | `lower_bound` of seeds " + ", ".join(map(str, options.seeds)), "|---|---|---|---|---|---|"]
    lines[0] += " | above the truth | median gap | not converged | seconds |"
    lines[1] += "---|"
    for (n, row), found in results.items():
        lines.append(cells(n, ROWS[row][0], found, 0, options.truth))
        if row == "ca":
            lines.append(cells(n, "`dainf`", found, 1, options.truth))
    return "\n".join(lines)


def cells(n, name, found, index, truth):
    estimates = [result["estimates"][index] for result in found]
    bounds = [e["lower_bound"] for e in estimates]
    show = lambda b: f"{b:.1f}" if abs(b) < 1e5 else f"{b:.1e}"
    shown = ", ".join(show(b) if b <= truth else f"**{show(b)}**" for b in bounds)
    above = sum(b > truth for b in bounds)
    gap = 100 * statistics.median((truth - b) / abs(truth) for b in bounds)
    gap = f"{gap:.1f} %" if gap < 1000 else "–"
    searched = [e["converged"] for e in estimates if e["converged"] is not None]
    settled = f"{searched.count(False)} of {len(searched)}" if searched else "–"
    seconds = statistics.median(result["seconds"] for result in found)
    return f"| {n:,} | {name} | {shown} | {above} | {gap} | {settled} | {seconds:.1f} |"


if __name__ == "__main__":
    main()
