"""Counts on how many seeds each method of `hambo demo` calls which policy safe, and whose bound is below the truth.

    python3 docs/results/demo.py target/release/hambo 20
"""
import json
import subprocess
import sys
import tempfile

binary, seeds = sys.argv[1], range(1, int(sys.argv[2]) + 1)
safe, valid = {}, {}
for seed in seeds:
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "demo", "--seed", str(seed), "--json", "--out", folder]
        result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    for policy in result["policies"]:
        for e in policy["estimates"]:
            key, judged = (policy["policy"], e["method"]), e["lower_bound"]
            safe.setdefault(key, []).append((e["value"] if judged is None else judged) >= result["threshold"])
            if judged is not None:
                valid.setdefault(key, []).append(judged <= policy["truth"])
    print(f"seed {seed}: " + ", ".join(f"{m} {y[-1]}" for (p, m), y in safe.items() if "1.1" in p), file=sys.stderr)
print("| policy | method | called safe | bound below the truth |\n|---|---|---|---|")
for (policy, method), calls in safe.items():
    below = valid.get((policy, method))
    print(f"| `{policy}` | `{method}` | {sum(calls)} of {len(calls)} | {f'{sum(below)} of {len(below)}' if below else '–'} |")
