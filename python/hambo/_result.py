"""What was found, for programs, terminals and notebooks."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _hambo
from ._optional import load
from ._settings import StrPath

_HEIGHT = 640  # of the report in a notebook, in pixels


@dataclass(frozen=True)
class Estimate:
    """What one method says of the return."""

    method: str
    value: float | None
    std_error: float | None
    lower_bound: float | None
    evidence: str | None


class _Told:
    """What answers and rankings have in common."""

    def __init__(self, native: _hambo.Answer) -> None:
        self._native = native
        self._dict: dict[str, Any] = json.loads(native.json())

    @property
    def verdict(self) -> str | None:
        """`meets`, `fails`, `not enough evidence`; None without a threshold."""
        return self._text("verdict")

    @property
    def outcome(self) -> str | None:
        """The same in the words of the headline: `MEETS`, `NOT SHOWN`, `NOT ENOUGH EVIDENCE`; None without a threshold."""
        return self._text("outcome")

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        return str(self._dict["summary"])

    @property
    def warnings(self) -> list[str]:
        """What the reader of the numbers must know, what matters most first."""
        return [str(warning) for warning in self._dict["warnings"]]

    def _text(self, name: str) -> str | None:
        value = self._dict.get(name)
        return None if value is None else str(value)

    def _get(self, name: str) -> Any:
        return self._dict.get(name)

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with `--json`, of layout `hambo/1`."""
        copy: dict[str, Any] = json.loads(self._native.json())
        return copy

    def to_html(self) -> str:
        """The report: one page that works offline."""
        return self._native.html()

    def to_markdown(self) -> str:
        """The summary for the page of a build or a pull request."""
        return self._native.markdown()

    def save(self, folder: StrPath) -> None:
        """Writes report.html, summary.md, result.json and the model, as the command does with `--out`."""
        self._native.save(folder)

    def __repr__(self) -> str:
        return self._native.text()

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:{_HEIGHT}px;border:0" sandbox="allow-scripts"></iframe>'


def _estimates(found: list[dict[str, Any]]) -> list[Estimate]:
    def estimate(told: dict[str, Any]) -> Estimate:
        bound, evidence = told.get("lower_bound"), told.get("evidence")
        return Estimate(told["method"], told["value"], told["std_error"], bound, evidence)

    return [estimate(told) for told in found]


class Result(_Told):
    """The answer about one policy."""

    @property
    def policy(self) -> str:
        """Its name."""
        return str(self._dict["policy"])

    @property
    def lower_bound(self) -> float | None:
        """The bound of the first method; None if that is neutral, or where there is no bound (−∞)."""
        bound = self._get("lower_bound")
        return None if bound is None else float(bound)

    @property
    def evidence(self) -> str | None:
        """`supported`, `extrapolated` or `unsupported`; None if the first method is neutral."""
        return self._text("evidence")

    @property
    def estimates(self) -> list[Estimate]:
        """One per method, in the order asked for."""
        return _estimates(self._dict["estimates"])

    def to_frame(self) -> Any:
        """The estimates as a pandas frame, a row a method."""
        return _frame(self._dict["estimates"])

    def plot(self, ax: Any = None) -> Any:
        """Draws all estimates on one axis (matplotlib), the bounds as lines to the left of them; returns the axes."""
        plt = load("matplotlib.pyplot", "plot()")
        if ax is None:
            ax = plt.subplots(figsize=(7, 0.5 * len(self.estimates) + 1.2))[1]
        for row, estimate in enumerate(self.estimates):
            if estimate.value is None:
                continue
            color = "tab:blue" if estimate.lower_bound is not None else "tab:gray"
            ax.plot([estimate.value], [row], "o", color=color)
            if estimate.lower_bound is not None:
                ax.plot([estimate.lower_bound, estimate.value], [row, row], "|-", color=color)
        threshold = self._get("threshold")
        if threshold is not None:
            ax.axvline(threshold, color="tab:red", linestyle="--", label="threshold")
        truth = self._get("truth")
        if truth is not None:
            ax.axvline(truth["value"], color="black", linestyle=":", label="true return")
        if threshold is not None or truth is not None:
            ax.legend()
        ax.set_yticks(range(len(self.estimates)), [estimate.method for estimate in self.estimates])
        ax.invert_yaxis()
        ax.set_xlabel("return")
        ax.set_title(self.summary, fontsize="medium")
        return ax


class Learned(Result):
    """The answer about a policy that was learned, and how it came about."""

    def __init__(self, native: _hambo.Answer, folder: Path) -> None:
        super().__init__(native)
        self._folder = folder

    @property
    def policy_file(self) -> Path:
        """The policy, for `hambo.evaluate` on logs that it was not learned from."""
        return self._folder / "policy.safetensors"

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the learning."""
        return dict(self._dict["learned"]["config"])

    @property
    def curve(self) -> list[dict[str, Any]]:
        """What was measured in the model at every checkpoint, as in `curve.csv`."""
        return list(self._dict["learned"]["curve"])

    @property
    def bounds(self) -> list[dict[str, Any]]:
        """The checkpoints that were bounded, the one that was taken first."""
        return list(self._dict["learned"]["bounds"])


class Ranking(_Told):
    """The answer about several policies, the best first."""

    @property
    def policies(self) -> list[dict[str, Any]]:
        """What was found about each, the best first, as in `to_dict()`."""
        found: list[dict[str, Any]] = self.to_dict()["policies"]
        return found

    @property
    def best(self) -> str:
        """The name of the first."""
        return str(self._dict["policies"][0]["name"])

    def to_frame(self) -> Any:
        """A pandas frame, a row a policy."""
        names = ("name", "verdict", "lower_bound", "evidence")
        rows = []
        for policy in self._dict["policies"]:
            row = {name: policy.get(name) for name in names}
            row |= {estimate["method"]: estimate["value"] for estimate in policy["estimates"]}
            rows.append(row)
        return _frame(rows)


class Inspection:
    """What is in a file."""

    def __init__(self, text: str, found: dict[str, Any]) -> None:
        self._text, self._found = text, found

    def to_dict(self) -> dict[str, Any]:
        """The object that `hambo inspect --json` prints."""
        return dict(self._found)

    def __repr__(self) -> str:
        return self._text


def _frame(rows: list[dict[str, Any]]) -> Any:
    return load("pandas", "to_frame()").DataFrame(rows)
