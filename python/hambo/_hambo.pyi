from collections.abc import Callable
from os import PathLike
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ._progress import Report

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Rows = tuple[Floats, Floats, Floats, Floats | None, Flags, Flags | None]
Column = tuple[str, NDArray[np.float64] | list[str]]
Options = tuple[list[str], str | None, int]

class Called(Protocol):
    def __call__(self, states: Floats, action_dim: int, /) -> Floats: ...

Handed = tuple[str, str, str | None] | tuple[str, Called] | None
Spaces = tuple[str, Floats, Floats, Floats]
Named = tuple[str, Callable[[Floats, Floats, Floats], Floats]]

class Simulation(Protocol):
    width: int
    def start(self, first: int, count: int, /) -> Floats: ...
    def step(self, actions: Floats, /) -> tuple[Floats, NDArray[np.float64], Flags]: ...

class Asked(Protocol):
    flags: list[str]
    logs: Logs | None
    policies: list[Handed]
    environment: Spaces | None
    progress: Report | None
    command: str
    program: str
    @property
    def simulation(self) -> Simulation | None: ...
    reward: Named | None
    termination: Named | None

class Logs:
    @staticmethod
    def rows(rows: Rows, options: Options) -> Logs: ...
    @staticmethod
    def table(columns: list[Column], options: Options) -> Logs: ...

class Answer:
    def json(self) -> str: ...
    def text(self) -> str: ...
    def html(self) -> str: ...
    def markdown(self) -> str: ...
    def save(self, folder: str | PathLike[str]) -> None: ...

def evaluate(asked: Asked) -> Answer: ...
def rank(asked: Asked) -> Answer: ...
def learn(asked: Asked) -> Answer: ...
def fit(asked: Asked) -> list[tuple[PathLike[str], bytes]]: ...
def inspect(flags: list[str], paths: list[str]) -> str: ...
def run(words: list[str]) -> int: ...
