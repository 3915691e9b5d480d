"""Draws estimates and bounds of several runs of `hambo evaluate --json` against the true return, as SVG.

    python docs/results/figure.py TRUTH result-1.json result-2.json … > docs/results/pendulum.svg
"""
import json
import sys

truth, runs = float(sys.argv[1]), [json.load(open(path)) for path in sys.argv[2:]]
methods = [e["method"] for e in runs[0]["estimates"]]
values = [v for r in runs for e in r["estimates"] for v in (e["value"], e["lower_bound"]) if v is not None]
low, high = min(values + [truth]), max(values + [truth])
low, high = low - 0.08 * (high - low), high + 0.08 * (high - low)
width, row, left, top = 720, 34, 150, 56
height = top + row * len(methods) + 46


def x(value):
    return left + (value - low) / (high - low) * (width - left - 30)


out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
    f'<rect width="{width}" height="{height}" fill="white"/>',
    f'<text x="16" y="24" font-size="15" font-weight="bold">{runs[0]["policy"]} on {runs[0]["task"]}: '
    f'{len(runs)} data sets of {runs[0]["data"]["transitions"]:,} transitions</text>',
    f'<line x1="{x(truth):.1f}" x2="{x(truth):.1f}" y1="{top - 12}" y2="{height - 40}" stroke="#222" stroke-dasharray="5 4"/>',
    f'<text x="{x(truth):.1f}" y="{top - 16}" text-anchor="middle">true return {truth:.1f}</text>',
]
for i, method in enumerate(methods):
    y = top + row * i + row / 2
    out.append(f'<line x1="{left}" x2="{width - 30}" y1="{y}" y2="{y}" stroke="#eee"/>')
    conservative = runs[0]["estimates"][i]["lower_bound"] is not None
    kind = "conservative" if conservative else "neutral"
    out.append(f'<text x="16" y="{y + 4}"><tspan font-weight="bold">{method}</tspan> <tspan fill="#777">{kind}</tspan></text>')
    for j, run in enumerate(runs):
        e = run["estimates"][i]
        dy = y + (j - (len(runs) - 1) / 2) * 4
        color = "#c0392b" if conservative else "#2c7fb8"
        if e["lower_bound"] is not None:
            out.append(f'<line x1="{x(e["lower_bound"]):.1f}" x2="{x(e["value"]):.1f}" y1="{dy}" y2="{dy}" stroke="{color}"/>')
            out.append(f'<path d="M {x(e["lower_bound"]):.1f} {dy - 4} v 8" stroke="{color}" stroke-width="2"/>')
        out.append(f'<circle cx="{x(e["value"]):.1f}" cy="{dy}" r="3" fill="{color}"/>')
ticks = 6
for k in range(ticks):
    value = low + (high - low) * (k + 0.5) / ticks
    out.append(f'<text x="{x(value):.1f}" y="{height - 22}" text-anchor="middle" fill="#555">{value:.1f}</text>')
out.append(f'<text x="{left}" y="{height - 6}" fill="#777" font-size="11">dot: estimate, bar: lower bound (less the Monte-Carlo margin)</text>')
out.append("</svg>")
print("\n".join(out))
