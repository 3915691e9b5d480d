"""What the benchmark says: the table of speeds, the table of check values, and whether they agree."""

from statistics import median

TOLERANCE = 1e-4
# Adam turns the rounding of a near-zero gradient into a whole step, so after ten steps correct programs drift apart:
# PyTorch with one thread, PyTorch with two and PyTorch in float64 differ among themselves by up to 6e-4 here.
DRIFT_TOLERANCE = 2e-3
DRIFTING = {
    ("w1", "step10_gradient_norm"),
    ("w2", "mean_norm"),
    ("w2", "epistemic_variance_norm"),
    ("w2", "aleatoric_variance_norm"),
}

STATISTICS = {"best": max, "median": median}


def speed_table(works, rates, labels):
    """Steps per second, all rounds together, with hambo's ratio to each peer. `rates[peer][work]` is a list."""
    rivals = [peer for peer in rates if peer != "hambo"] if "hambo" in rates else []
    header = ["workload", "steps/s", *(labels[peer] for peer in rates), *(f"hambo / {labels[peer]}" for peer in rivals)]
    rows = []
    for work in works:
        for name, statistic in STATISTICS.items():
            speed = {peer: statistic(rates[peer][work]) for peer in rates}
            ratios = [f"{speed['hambo'] / speed[peer]:.2f}" for peer in rivals]
            rows.append([work, name, *(f"{value:.1f}" for value in speed.values()), *ratios])
    return markdown(header, rows)


def check_table(works, checks, labels):
    """Check values, with each peer's difference from PyTorch, the reference. `checks[peer][work][name]` is a number."""
    others = [peer for peer in checks if peer != "torch"] if "torch" in checks else []
    header = ["workload", "value", *(labels[peer] for peer in checks)]
    header += [f"{labels[peer]} differs by" for peer in others] + (["allowed"] if "hambo" in others else [])
    rows = []
    for work in works:
        for name in value_names(checks, work):
            found = {peer: checks[peer][work].get(name) for peer in checks}
            row = [work, name, *("missing" if value is None else f"{value:.6f}" for value in found.values())]
            for peer in others:
                difference = relative_difference(found[peer], found["torch"])
                row.append("–" if difference is None else f"{difference:.1e}")
            rows.append(row + ([f"{tolerance(work, name):.0e}"] if "hambo" in others else []))
    return markdown(header, rows)


def disagreements(works, checks):
    """One sentence for each value in which hambo is not PyTorch's; none where either was skipped."""
    if not {"hambo", "torch"} <= checks.keys():
        return []
    found = []
    for work in works:
        for name, reference in checks["torch"][work].items():
            difference = relative_difference(checks["hambo"][work].get(name), reference)
            if difference is None:
                found.append(f"{work} {name}: hambo-bench printed no such check value")
            elif not difference <= tolerance(work, name):  # so written that a NaN disagrees
                found.append(f"{work} {name}: differs by {difference:.1e}, allowed {tolerance(work, name):.0e}")
    return found


def tolerance(work, name):
    return DRIFT_TOLERANCE if (work, name) in DRIFTING else TOLERANCE


def relative_difference(value, reference):
    """|value - reference| / |reference|; None where there is nothing to compare."""
    if value is None or reference is None:
        return None
    if reference == 0:
        return 0.0 if value == 0 else float("inf")
    return abs(value - reference) / abs(reference)


def value_names(checks, work):
    """Every name that any peer printed, in the order first seen."""
    return list(dict.fromkeys(name for peer in checks for name in checks[peer][work]))


def markdown(header, rows):
    """A table that reads well in a terminal and pastes into a document; text to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]

    def line(cells):
        padded = [c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * w if i < 2 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(map(line, [header, rule, *rows]))
