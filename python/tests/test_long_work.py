"""Progress, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from conftest import SWING_UP

import hambo


def test_progress_is_told(log, pendulum):
    told = []
    slow = {**pendulum, "model_config": {**pendulum["model_config"], "steps": 3000}}
    hambo.evaluate(log, SWING_UP, progress=lambda *report: told.append(report), **slow)
    assert told and all(isinstance(stage, str) and 0 <= done <= total for stage, done, total, _ in told)


def test_bars(log, pendulum, capfd):
    hambo.evaluate(log, SWING_UP, progress=True, **pendulum)
    shown = capfd.readouterr().err
    # Which stages are seen depends on how fast they go by.
    assert any(stage in shown for stage in ("training", "rollouts", "explanation")), shown
    assert "reading the logs" not in shown, "the command's own lines are not for programs"


def test_nothing_is_shown_unasked(log, pendulum, capfd):
    hambo.evaluate(log, SWING_UP, **pendulum)
    assert capfd.readouterr().err == ""


def test_an_exception_in_the_report_stops_the_work(log, pendulum):
    def report(*_):
        raise RuntimeError("enough")

    endless = {**pendulum, "model_config": {"steps": 1_000_000}}
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="enough"):
        hambo.evaluate(log, SWING_UP, progress=report, **endless)
    assert time.monotonic() - start < 20


def test_other_threads_run_meanwhile(log, pendulum):
    """Python's lock is free while the work goes on."""
    turns, over = 0, threading.Event()

    def count():
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    hambo.evaluate(log, SWING_UP, **{**pendulum, "model_config": {**pendulum["model_config"], "steps": 5000}})
    over.set()
    thread.join()
    assert turns > 100


ENDLESS = """
    import json, sys, time, hambo
    settings = json.loads(sys.argv[2])
    print("begun", flush=True)
    try:
        hambo.evaluate(sys.argv[1], POLICY, **settings)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        try:  # the interpreter is as good as before
            hambo.evaluate("no-such-file", "builtin:swing-up", horizon=5)
        except hambo.DataError:
            print("alive", flush=True)
"""


@pytest.mark.parametrize(("wait", "policy"), [(0.5, "'builtin:swing-up'"), (4, "'builtin:swing-up'"), (4, "lambda s: -s[:, 2:3]")])
def test_ctrl_c_stops_within_a_second(log, pendulum, tmp_path, wait, policy):
    settings = {**pendulum, "out": str(tmp_path / "run"), "save_every": 0}
    if wait < 1:
        settings["model_config"] = {"steps": 1_000_000}
    else:
        settings |= {"search_config": {"iterations": 1_000_000, "patience": 1_000_000}, "horizon": 100}
    script = textwrap.dedent(ENDLESS).replace("POLICY", policy)
    words = [sys.executable, "-c", script, log, json.dumps(settings)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(wait)
        start = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        took = time.monotonic() - start
        assert process.stdout.readline() == "alive\n"
        assert process.wait(timeout=20) == 0
    assert took < 1.5, took  # a second, and the noise of a busy machine
    if wait > 1:
        assert any((tmp_path / "run" / "unfinished").iterdir())


def test_work_that_was_stopped_goes_on(log, pendulum, tmp_path):
    """What `out` kept is taken up again, and ends with the same bits."""
    settings = {**pendulum, "model_config": {**pendulum["model_config"], "steps": 4000, "patience": 4000}}
    whole = hambo.evaluate(log, SWING_UP, **settings)

    def stop_in_the_middle(stage, done, total, _):
        if stage.startswith("training") and done >= 400:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hambo.evaluate(log, SWING_UP, out=tmp_path, save_every=0, progress=stop_in_the_middle, **settings)
    assert any((tmp_path / "unfinished").iterdir())
    resumed = hambo.evaluate(log, SWING_UP, out=tmp_path, save_every=0, **settings)
    assert resumed.to_dict()["estimates"] == whole.to_dict()["estimates"]
    assert not (tmp_path / "unfinished").exists()


def test_the_log_says_what_goes_on(log, pendulum, caplog):
    with caplog.at_level("DEBUG", logger="hambo"):
        result = hambo.evaluate(log, SWING_UP, **pendulum)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    stages = [text for level, text in told if level == "INFO"]
    assert any(stage.startswith("training") for stage in stages) and any(stage.startswith("rollouts") for stage in stages)
    assert result.summary in stages and len(stages) > 4
    assert all(record.name == "hambo" for record in caplog.records)
    ranked = list(zip(result.warnings, result.to_dict()["warning_ranks"], strict=True))
    assert [text for level, text in told if level == "WARNING"] == [text for text, rank in ranked if rank != "information"]
    assert any(level == "DEBUG" and " of " in text for level, text in told)


def test_every_stage_is_told(log, pendulum):
    """However fast it goes by."""
    stages = []

    def report(stage, *_):
        stages.append(stage)

    hambo.evaluate(log, SWING_UP, progress=report, **pendulum)
    for expected in ("training", "adversary", "rollouts"):
        assert any(stage.startswith(expected) for stage in stages), stages
