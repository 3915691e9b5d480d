"""Packages that are needed by some inputs only. They are loaded by name, so that type checkers do not read them either."""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import Error


def load(module: str, purpose: str) -> Any:
    """The module; an error says what it is for, and how to have it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise Error(f"{purpose} needs {package}: pip install {package}") from None
