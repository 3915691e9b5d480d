"""Sweeps: the jobs of a plan on this machine, or on a Ray cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _hambo
from ._api import _Asked
from ._errors import Error, SettingError
from ._optional import load
from ._progress import Report, watching
from ._settings import StrPath

_COMMAND = [sys.executable, "-c", "from hambo._command import main; main()", "sweep"]
_AHEAD = 1000  # evaluations that are handed to Ray before the first of them has ended
_NUMBERS = (
    "method",
    "value",
    "std_error",
    "lower_bound",
    "subtracted",
    "evidence",
    "converged",
    "diverged_rollouts",
    "left_rollouts",
)


def sweep(
    plan: StrPath,
    *,
    out: StrPath,
    engine: str = "local",
    workers: int = 1,
    device: str = "auto",
    cpus: float = 1.0,
    gpus: float = 0.0,
    retries: int = 10,
    retry_failed: bool = False,
    progress: bool | Report | None = None,
) -> Any:
    """Does all jobs of a plan (a TOML file, see docs/scaling.md) that are not done in `out`; returns the table as a pandas frame.

    `engine="local"`: `workers` processes on this machine, as `hambo sweep`.
    `engine="ray"`: a task for each model that is learned, and one for each policy on it, on the cluster that Ray is connected
    to, or on this machine. Each task asks for `cpus` and `gpus`, which may be fractions; tasks of nodes that die are tried again
    up to `retries` times. All nodes must see the files of the plan; `out` is written by this process alone.

    A job that fails is a row with its error; `retry_failed` does it again. A plan with a mistake is an error that names its line.
    """
    pandas = load("pandas", "hambo.sweep")
    words = [os.path.abspath(plan), "--out", os.path.abspath(out)]
    if engine == "local":
        extra = ["--retry-failed"] if retry_failed else []
        _local([*words, "--device", device, *extra], workers)
    elif engine == "ray":
        jobs = [_Job(**json.loads(line)) for line in _run([*words, "--list"]).splitlines()]
        machine = [f"--device={device}", f"--threads={max(1, int(cpus))}"]
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": retries}
        place = Path(out)
        place.mkdir(parents=True, exist_ok=True)
        open_jobs = [job for job in jobs if not job.ended or (retry_failed and job.forget(place))]
        with watching(progress) as told:
            _on_ray(open_jobs, place, machine, options, told)
    else:
        raise SettingError(f'engine = {engine!r}: expected "local" or "ray"')
    _run([*words, "--collect"], codes=(0, 1))
    # Later ones read every digit anyway, and no longer want to be told.
    is_exact = tuple(map(int, pandas.__version__.split(".")[:2])) >= (3, 1)
    exact = {} if is_exact else {"float_precision": "round_trip"}
    return pandas.read_csv(Path(out) / "table.csv", **exact)


def _run(words: list[str], codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run([*_COMMAND, *words], capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        raise Error(_last(done.stderr))
    return done.stdout


def _last(told: str) -> str:
    lines = told.strip().splitlines() or ["the command said nothing"]
    return lines[-1].removeprefix("error: ")


def _local(words: list[str], workers: int) -> None:
    if workers < 1:
        raise SettingError(f"workers = {workers}: expected 1 or more")
    _run([*words[:3], "--status"], codes=(0, 1))  # a plan with a mistake is told once
    started = []
    try:
        for _ in range(workers):
            started.append(subprocess.Popen([*_COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        told = [(worker.communicate()[1], worker.returncode) for worker in started]
    finally:
        for worker in started:
            worker.kill()
    for text, code in told:
        if code not in (0, 1):
            raise Error(_last(text))


@dataclass
class _Job:
    """A job as `hambo sweep --list` tells it."""

    job: str
    fit: str
    what: str
    flags: list[str]
    ended: bool

    def forget(self, out: Path) -> bool:
        """Whether it had failed, which is forgotten."""
        failed = out / "failed" / f"{self.job}.json"
        had_failed = failed.exists()
        failed.unlink(missing_ok=True)
        return had_failed

    def keep(self, out: Path, record: dict[str, Any]) -> None:
        """Makes known what came out, in one step; the first answer stays."""
        folder = out / ("done" if record["error"] is None else "failed")
        folder.mkdir(parents=True, exist_ok=True)
        if (out / "done" / f"{self.job}.json").exists():
            return
        with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", delete=False) as file:
            json.dump(record, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, folder / f"{self.job}.json")


def _asked(flags: list[str], policies: list[_hambo.Handed], command: str) -> _Asked:
    return _Asked(flags, None, policies, None, None, command, str(_hambo.__file__))


_Model = dict[str, bytes]


def _fit(flags: list[str]) -> _Model | str:
    """Learns the model that a job and others need; a problem is told as text, as it is each job's."""
    words = [word for word in flags if not word.startswith("--policy=")]
    try:
        return {Path(name).name: content for name, content in _hambo.fit(_asked(words, [], ""))}
    except Error as problem:
        return str(problem)


def _evaluated(job: str, flags: list[str], model: _Model | str | None) -> dict[str, Any]:
    """Does a job: the record of what came out."""
    start = time.monotonic()
    record: dict[str, Any] = {
        "job": job, "version": "", "build": "", "device": "", "worker": f"{socket.gethostname()}:{os.getpid()}",
        "seconds": 0.0, "error": None, "summary": "", "verdict": None, "level": None, "transitions": None,
        "episodes": None, "estimates": [],
    }  # fmt: skip
    try:
        if isinstance(model, str):
            raise Error(model)
        told = _answer(flags, model)
        record |= {name: told[name] for name in ("version", "device", "summary", "verdict", "level")}
        record |= {name: told["data"][name] for name in ("transitions", "episodes")}
        record["estimates"] = [{name: estimate.get(name) for name in _NUMBERS} for estimate in told["estimates"]]
    except Error as problem:
        record["error"] = str(problem)
    record["seconds"] = time.monotonic() - start
    return record


def _answer(flags: list[str], model: _Model | None) -> dict[str, Any]:
    command = "hambo evaluate " + " ".join(flags)
    with tempfile.TemporaryDirectory(prefix="hambo-") as folder:
        words = list(flags)
        if model is not None:
            for name, content in model.items():
                (Path(folder) / name).write_bytes(content)
            words = [word for word in flags if not word.startswith("--model-config=")] + [f"--fitted={folder}"]
        words = [word for word in words if not word.startswith("--save-every=")]
        told: dict[str, Any] = json.loads(_hambo.evaluate(_asked(words, [None], command)).json())
    return told


def _on_ray(jobs: list[_Job], out: Path, machine: list[str], options: dict[str, Any], progress: Report) -> None:
    """One task for each model, whose policies follow once it is in the object store; results are written as they come."""
    ray = load("ray", 'engine="ray"')
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    fit, evaluated = (ray.remote(function).options(**options) for function in (_fit, _evaluated))
    sizes: dict[str, int] = {}
    for job in jobs:
        sizes[job.fit] = sizes.get(job.fit, 0) + 1

    def started() -> Iterator[tuple[Any, _Job]]:
        models: dict[str, Any] = {}
        for job in jobs:
            flags = [*(word for word in job.flags if not word.startswith("--save-every=")), *machine]
            if sizes[job.fit] > 1 and job.fit not in models:
                models = {job.fit: fit.remote(flags)}  # those on the same model follow each other
            yield evaluated.remote(job.job, flags, models.get(job.fit)), job

    pending: dict[Any, _Job] = {}
    waiting, done = started(), 0
    try:
        while True:
            while len(pending) < _AHEAD and (new := next(waiting, None)) is not None:
                pending[new[0]] = new[1]
            if not pending:
                return
            (ready,), _ = ray.wait(list(pending), num_returns=1)
            job = pending.pop(ready)
            job.keep(out, ray.get(ready))
            done += 1
            progress("sweep", done, len(jobs), job.what)
    finally:
        for task in pending:
            ray.cancel(task)
