"""What a newcomer sees: the real command in situations that people get into, held against what was printed when somebody last read it aloud.

Each situation has a file in tests/newcomer/ with the command line, the exit code and every line of output. `UPDATE=1` writes them anew: read the difference.
Times, paths, versions and, in results of evaluations, digits are left out: they depend on the machine.
"""

import contextlib
import functools
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import BINARY, ROOT

SNAPSHOTS = Path(__file__).parent / "newcomer"
UPDATE = os.environ.get("UPDATE") == "1"
CHECKPOINTS = ROOT / "checkpoints"

LOG = "--data pend.hdf5 --env pendulum"
ASK = f"evaluate {LOG} --policy builtin:swing-up --horizon 10"
# Quick, and far from any answer that one would believe.
TINY = "--rollouts 100 --model-config tiny.json --search-config search.json --method ca,ds --device cpu"

# name: command line. In every line the files of `newcomer` below are at hand.
MISTAKES = {
    # Nothing, or something that there is not.
    "no-arguments": "",
    "help-of-what": "help evalute",
    "command-misspelt": "evalute --data pend.hdf5",
    "option-misspelt": f"evaluate {LOG} --polcy builtin:swing-up --horizon 10",
    "option-of-another-command": "collect --env pendulum --policy builtin:swing-up --steps 100 --horizn 5 --out x.hdf5",
    "evaluate-without-anything": "evaluate",
    "evaluate-without-horizon": f"evaluate {LOG} --policy builtin:swing-up",
    "option-without-value": f"{ASK} --threshold",
    # Data.
    "data-missing": "evaluate --data pendulum.hdf5 --env pendulum --policy builtin:swing-up --horizon 10",
    "data-is-a-folder": "evaluate --data empty --env pendulum --policy builtin:swing-up --horizon 10",
    "data-is-empty": "evaluate --data empty.csv --env pendulum --policy builtin:swing-up --horizon 10",
    "data-is-text": "evaluate --data notes.txt --env pendulum --policy builtin:swing-up --horizon 10",
    "data-is-cut-off": "evaluate --data cut.hdf5 --env pendulum --policy builtin:swing-up --horizon 10",
    "data-is-a-pickle": "evaluate --data log.pkl --env pendulum --policy builtin:swing-up --horizon 10",
    "data-is-a-pointer-of-git-lfs": "evaluate --data lfs.hdf5 --env pendulum --policy builtin:swing-up --horizon 10",
    "data-is-a-policy": "evaluate --data pendulum.safetensors --env pendulum --policy builtin:swing-up --horizon 10",
    "csv-without-header": "evaluate --data bare.csv --env pendulum --policy builtin:swing-up --horizon 10",
    "csv-with-names-of-its-own": "evaluate --data named.csv --env pendulum --policy builtin:swing-up --horizon 10",
    "csv-column-misspelt": "evaluate --data named.csv --columns state=cos,sin,sped action=torque reward=paid --policy builtin:swing-up --horizon 10",
    "csv-with-a-word-in-it": "evaluate --data word.csv --env pendulum --policy builtin:swing-up --horizon 10",
    "csv-with-nan": "evaluate --data nan.csv --env pendulum --policy builtin:swing-up --horizon 10",
    "csv-with-a-constant-column": "evaluate --data constant.csv --policy builtin:swing-up --horizon 10",
    "csv-without-rewards": "evaluate --data unpaid.csv --policy builtin:swing-up --horizon 10",
    "data-of-another-environment": "evaluate --data pend.hdf5 --env point --policy builtin:proportional --horizon 10",
    "data-of-two-shapes": "evaluate --data pend.hdf5 point.hdf5 --env pendulum --policy builtin:swing-up --horizon 10",
    "data-not-downloaded": "evaluate --data minari:mujoco/hopper/medium-v0 --policy builtin:swing-up --horizon 10",
    # Policies.
    "policy-missing": f"evaluate {LOG} --policy agent.zip --horizon 10",
    "policy-builtin-misspelt": f"evaluate {LOG} --policy builtin:swingup --horizon 10",
    "policy-without-builtin": f"evaluate {LOG} --policy swing-up --horizon 10",
    "policy-gain-misspelt": f"evaluate {LOG} --policy builtin:swing-up,gian=2 --horizon 10",
    "policy-of-another-environment": f"evaluate {LOG} --policy hopper.safetensors --horizon 10",
    "policy-is-some-zip": f"evaluate {LOG} --policy some.zip --horizon 10",
    "policy-is-the-data": f"evaluate {LOG} --policy pend.hdf5 --horizon 10",
    "policy-is-a-cut-off-file": f"evaluate {LOG} --policy cut.safetensors --horizon 10",
    "policy-is-a-pickled-module": f"evaluate {LOG} --policy log.pkl --horizon 10",
    # Environments and tasks.
    "env-misspelt": "evaluate --data pend.hdf5 --env pendulm --policy builtin:swing-up --horizon 10",
    "env-old-gymnasium-name": "evaluate --data pend.hdf5 --env Pendulum-v0 --policy builtin:swing-up --horizon 10",
    "env-not-built-in": "evaluate --data pend.hdf5 --env Ant-v5 --policy builtin:swing-up --horizon 10",
    "env-without-mujoco": "return --env Hopper-v5 --policy hopper.safetensors --horizon 10 --episodes 2",
    "task-missing": "evaluate --data pend.hdf5 --task pendulum.toml --policy builtin:swing-up --horizon 10",
    "task-key-misspelt": "evaluate --data pend.hdf5 --task misspelt.toml --policy builtin:swing-up --horizon 10",
    "reward-of-an-unknown-name": "evaluate --data pend.hdf5 --reward -(theta^2) --policy builtin:swing-up --horizon 10",
    "reward-beyond-the-state": "evaluate --data pend.hdf5 --reward -(s[3]^2) --policy builtin:swing-up --horizon 10",
    "reward-not-closed": "evaluate --data pend.hdf5 --reward -(s[0]^2 --policy builtin:swing-up --horizon 10",
    "termination-in-words": "evaluate --data pend.hdf5 --termination never --policy builtin:swing-up --horizon 10",
    # Numbers and choices.
    "horizon-zero": f"evaluate {LOG} --policy builtin:swing-up --horizon 0",
    "horizon-in-words": f"evaluate {LOG} --policy builtin:swing-up --horizon ten",
    "threshold-in-words": f"{ASK} --threshold high",
    "threshold-nan": f"{ASK} --threshold nan",
    "delta-in-percent": f"{ASK} --delta 5",
    "rollouts-too-few": f"{ASK} --rollouts 10",
    "method-neutral-with-threshold": f"{ASK} --method ds --threshold -1000",
    "method-unknown": f"{ASK} --method hambo",
    "model-config-key-misspelt": f"{ASK} --model-config misspelt.json",
    "fitted-missing": f"{ASK} --fitted run9",
    "threads-zero": f"{ASK} --threads 0",
    # Places to write to.
    "out-is-a-file": f"{ASK} --out notes.txt",
    "collect-over-a-file": "collect --env pendulum --policy builtin:swing-up --steps 100 --out pend.hdf5",
    "collect-to-no-folder": "collect --env pendulum --policy builtin:swing-up --steps 100 --out nowhere/x.hdf5",
    # Options in a file.
    "config-missing": "--config run.toml",
    "config-key-misspelt": "--config misspelt-run.toml",
    # Looking around.
    "inspect-a-csv": "inspect log.csv",
    "inspect-a-policy": "inspect pendulum.safetensors",
    "inspect-a-folder": "inspect logs",
    "inspect-with-a-policy": "inspect pend.hdf5 --policy pendulum.safetensors",
    "return-of-gymnasium": "return --env Pendulum-v1 --policy builtin:swing-up --horizon 10 --episodes 100 --seed 1",
    "completions-for-what": "completions tcsh",
}

# The same, where an answer is computed.
ANSWERS = {
    "answer-without-threshold": f"{ASK} {TINY}",
    "answer-far-above": f"{ASK} {TINY} --threshold 1000",
    "answer-of-one-episode": f"evaluate --data one.csv --env pendulum --policy builtin:swing-up --horizon 10 {TINY} --threshold -1000",
    "answer-unsupported": f"evaluate {LOG} --policy bad.safetensors --horizon 10 {TINY} --threshold -1000",
    "answer-unsupported-but-accepted": f"evaluate {LOG} --policy bad.safetensors --horizon 10 {TINY} --threshold -1000 --accept extrapolation",
    "answer-that-meets": f"{ASK} {TINY} --threshold -1000",
    "answer-in-gymnasiums-words": f"evaluate --data pend.hdf5 --env Pendulum-v1 --policy builtin:swing-up --horizon 10 {TINY}",
    "answer-in-markdown": f"{ASK} {TINY} --markdown",
    "answer-of-a-ranking": f"rank {LOG} --policy builtin:swing-up bad.safetensors --horizon 10 {TINY} --threshold -1000",
}


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    """A folder with what a newcomer has: logs, good and bad ones, policies, settings."""
    folder = tmp_path_factory.mktemp("newcomer")

    def hambo(line):
        subprocess.run([BINARY, *line.split(), "--quiet"], cwd=folder, check=True, capture_output=True)

    hambo("collect --env pendulum --policy builtin:swing-up --noise 0.5 1.0 --steps 1200 --horizon 60 --seed 1 --out pend.hdf5")
    hambo("collect --env pendulum --policy builtin:swing-up --noise 0.5 --steps 1200 --horizon 60 --seed 2 --out other.hdf5")
    hambo("collect --env point --policy builtin:proportional --noise 0.5 --steps 300 --seed 1 --out point.hdf5")
    write_logs(folder)
    for name, source in (("pendulum", "pendulum/good"), ("bad", "pendulum/bad"), ("hopper", "hopper/bad")):
        (folder / f"{name}.safetensors").write_bytes((CHECKPOINTS / f"{source}.safetensors").read_bytes())
    (folder / "cut.safetensors").write_bytes((folder / "pendulum.safetensors").read_bytes()[:5000])
    (folder / "cut.hdf5").write_bytes((folder / "pend.hdf5").read_bytes()[:9000])
    (folder / "lfs.hdf5").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    (folder / "log.pkl").write_bytes(b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x07payload\x94.")
    (folder / "some.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    (folder / "notes.txt").write_text("Monday: nothing fell over.\n")
    (folder / "empty.csv").write_text("")
    (folder / "empty").mkdir()
    (folder / "logs").mkdir()
    (folder / "logs/monday.csv").write_text((folder / "log.csv").read_text())
    (folder / "tiny.json").write_text(json.dumps({"hidden": [16], "steps": 200, "folds": 2, "particles": 3}))
    (folder / "search.json").write_text(json.dumps({"restarts": 1, "batch": 32, "evaluation": 100}))
    (folder / "misspelt.json").write_text('{"hiden": [16]}')
    (folder / "misspelt.toml").write_text('env = "pendulum"\nrewrd = "r"\n')
    (folder / "misspelt-run.toml").write_text('command = "evaluate"\ndata = ["pend.hdf5"]\npolcy = "builtin:swing-up"\n')
    return folder


def write_logs(folder):
    """CSV files, right and wrong, of the collected episodes."""
    with h5py.File(folder / "pend.hdf5") as file:
        rows = np.column_stack([np.repeat(np.arange(20), 60), file["observations"], file["actions"], file["rewards"]])
    names = ["episode", "s0", "s1", "s2", "a0", "reward"]

    def csv(name, header, rows):
        lines = [",".join(f"{x:.6g}" if not isinstance(x, str) else x for x in row) for row in rows]
        (folder / name).write_text("\n".join(([",".join(header)] if header else []) + lines) + "\n")

    listed = rows.tolist()
    csv("log.csv", names, listed)
    csv("one.csv", names, listed[:60])
    csv("bare.csv", None, listed)
    csv("named.csv", ["run", "cos", "sin", "speed", "torque", "paid"], listed)
    csv("unpaid.csv", names[:-1], [row[:-1] for row in listed])
    csv("constant.csv", names, [[*row[:3], 0.5, *row[4:]] for row in listed])
    csv("word.csv", names, [*listed[:10], [*listed[10][:3], "fast", *listed[10][4:]], *listed[11:]])
    csv("nan.csv", names, [*listed[:10], [*listed[10][:3], "nan", *listed[10][4:]], *listed[11:]])


def told(line, done, digits=True):
    """What the snapshot holds: the line, the exit code, and both streams without what depends on the machine."""
    text = f"$ hambo {line}\n"
    for name, stream in (("", done.stdout), ("stderr", done.stderr)):
        text += (f"--- {name}\n" if name and stream else "") + plain(stream, digits)
    return text + f"--- exit code {done.returncode}\n"


def plain(text, digits=True):
    """Without times, the repository's path, versions; without digits and widths where these depend on the processor."""
    text = re.sub(r"/[\w/.-]*/newcomer\d+", "HOME", text.replace(str(ROOT), "ROOT"))
    text = re.sub(r"^ *\d+(\.\d)? s  ", "TIME  ", text, flags=re.M)
    text = re.sub(r"\b\d+(\.\d+)? (s|ms|seconds?|minutes?)\b", "TIME", text)
    text = re.sub(r"(hambo )\d+\.\d+\.\d+", r"\1VERSION", text)
    text = re.sub(r"process \d+", "process N", text)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "DIGEST", text)
    if not digits:
        text = re.sub(r"(?<![\w\[.^*])[-−]?\d+(,\d{3})*(\.\d+)?(e-?\d+)?", "#", text)
        text = re.sub(r" {2,}", "  ", re.sub(r"─+", "─", text))
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def same(name, text):
    """Against the snapshot, or into it."""
    path = SNAPSHOTS / f"{name}.txt"
    if UPDATE:
        SNAPSHOTS.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: UPDATE=1 writes it"
    assert text == path.read_text(), f"{name}: read what is printed now, then UPDATE=1"


@functools.cache
def installed():
    """The program alone, as it is after an installation: nothing of the checkout lies beside it."""
    return shutil.copy(BINARY, tempfile.mkdtemp(prefix="hambo-installed-"))


def run(folder, line, **env):
    """In a world without a terminal, a home of its own and MuJoCo."""
    known = {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "100", "MUJOCO_LIB": "", **env}
    return subprocess.run([installed(), *shlex.split(line)], cwd=folder, env=known, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(newcomer, name):
    done = run(newcomer, quoted(MISTAKES[name]))
    same(name, told(MISTAKES[name], done))
    assert done.returncode in (0, 2), done.stderr
    assert "panicked" not in done.stderr


def quoted(line):
    """Expressions in one word, as a shell would hand them over."""
    return re.sub(r"--(reward|termination) (\S+)", r"--\1='\2'", line)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(newcomer, name):
    done = run(newcomer, ANSWERS[name])
    same(name, told(ANSWERS[name], done, digits=False))
    assert done.returncode in (0, 1), done.stderr


def test_a_finished_folder_and_force(newcomer):
    line = f"{ASK} {TINY} --out finished"
    first = run(newcomer, f"{line} --quiet")
    assert first.stderr == "" and first.returncode == 0
    same("out-quiet", told(f"{line} --quiet", first, digits=False))
    same("out-is-finished", told(line, run(newcomer, line)))
    same("out-with-force", told(f"{line} --force", run(newcomer, f"{line} --force"), digits=False))
    for name, log in (("fitted-on-other-data", "other.hdf5"), ("fitted-and-model-config", "pend.hdf5")):
        again = f"{ASK} {TINY} --fitted finished".replace("pend.hdf5", log)
        again = again if log == "pend.hdf5" else again.replace("--model-config tiny.json ", "")
        same(name, told(again, run(newcomer, again)))
    repeat = "--config finished/run.toml --out repeated"
    same("config-of-a-run", told(repeat, run(newcomer, repeat), digits=False))


def interrupted(folder, line, when):
    """Ctrl-C once there is something to interrupt. Which stage it had reached is not told: that depends on the machine."""
    told_so_far = folder / "stderr.txt"
    with told_so_far.open("w") as stderr:
        process = subprocess.Popen([BINARY, *line.split()], cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, "HOME": str(folder)})
        patience = time.monotonic() + 120
        while not when(told_so_far.read_text()) and time.monotonic() < patience:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    err = "".join(line for line in told_so_far.read_text().splitlines(keepends=True) if not re.match(r" *\d+\.\d s  ", line))
    return subprocess.CompletedProcess(line, process.returncode, out, err)


def test_interrupted_and_taken_up(newcomer):
    settings = {"hidden": [16], "steps": 500_000, "patience": 500_000, "folds": 2, "particles": 3}
    (newcomer / "long.json").write_text(json.dumps(settings))
    endless = f"{ASK} {TINY}".replace("tiny.json", "long.json")
    same("interrupted-without-out", told(endless, interrupted(newcomer, endless, lambda said: "training" in said)))
    kept = f"{endless} --save-every 0 --out kept"
    unfinished = newcomer / "kept/unfinished"
    first = interrupted(newcomer, kept, lambda _: unfinished.is_dir() and any(unfinished.iterdir()))
    same("interrupted", told(kept, first))
    second = interrupted(newcomer, kept, lambda said: "training" in said)
    assert "going on with what is kept in kept/unfinished" in second.stderr
    same("interrupted-and-taken-up", told(kept, second))


@pytest.mark.parametrize("name, env", [("terminal-in-color", {}), ("terminal-no-color", {"NO_COLOR": "1"})])
def test_terminals(newcomer, name, env):
    """The last line in a terminal: with color, unless NO_COLOR is set."""
    line = f"{ASK} {TINY} --threshold 1000"
    leader, follower = pty.openpty()
    known = {"PATH": os.environ["PATH"], "HOME": str(newcomer), "TERM": "xterm", **env}
    process = subprocess.Popen([BINARY, *line.split()], cwd=newcomer, stdout=follower, stderr=subprocess.DEVNULL, env=known)
    os.close(follower)
    shown = b""
    with contextlib.suppress(OSError):  # Linux's word for the other side being closed
        while part := os.read(leader, 65536):
            shown += part
    os.close(leader)
    last = shown.decode().strip().splitlines()[-1].replace("\x1b", "ESC")
    last = re.sub(r"[-−]?\d+\.\d+", "#", last)
    same(name, f"$ {'NO_COLOR=1 ' if env else ''}hambo {line}\n{last}\n--- exit code {process.wait()}\n")


def test_there_are_sixty_situations_and_no_snapshot_without_one():
    others = 6 + 3 + 2  # folders, Ctrl-C, terminals
    assert len(MISTAKES) + len(ANSWERS) + others >= 60
    assert UPDATE or len(list(SNAPSHOTS.glob("*.txt"))) == len(MISTAKES) + len(ANSWERS) + others
