"""Output that a document shows against what is printed: words have to agree, numbers roughly, since other processors round otherwise."""

import re

NUMBER = re.compile(r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?")


def shape(line):
    """Its words, without widths of columns; and its numbers."""
    words = re.sub(r"[─\s]+", " ", NUMBER.sub("#", line)).strip()
    return words, [float(n.replace("−", "-").replace(",", "")) for n in NUMBER.findall(line)]


def agree(shown, printed):
    """Whether a line that is shown is the line that was printed; numbers may differ by a quarter, or by a twentieth of the largest in the line, as differences do."""
    (words, numbers), (said, found) = shape(shown), shape(printed)
    slack = 1 + 0.05 * max(map(abs, numbers), default=0)
    return words == said and all(abs(a - b) <= slack + 0.25 * max(abs(a), abs(b)) for a, b in zip(numbers, found, strict=True))


def missing(shown, printed):
    """The first line that is shown and was not printed where it should be; None if all were. A line with … stands for any lines."""
    rest, skip = [line for line in printed.splitlines() if line.strip()], False
    for line in shown.splitlines():
        if not line.strip():
            continue
        if line.strip() == "…":
            skip = True
            continue
        place = next((i for i, found in enumerate(rest) if agree(line, found)), None)
        if place is None or (place > 0 and not skip):
            return line
        rest, skip = rest[place + 1 :], False
    return None if skip or not rest else f"(the end; there is more:) {rest[0]}"
