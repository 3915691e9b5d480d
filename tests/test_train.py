"""`hambo train`: it learns, survives being killed, and writes what TensorBoard reads."""

import csv
import json
import struct
import subprocess
import time

import pytest
from conftest import BINARY, Hambo

QUICK = "--hidden 64,64 --batch 128 --learning-rate 0.001 --evaluate-every 2000 --seed 1"


@pytest.fixture(scope="module")
def trained(hambo):
    line = f"train --env pendulum --steps 8000 {QUICK} --out whole"
    return hambo.json(line), hambo.folder / "whole"


def test_pendulum_is_learned(hambo, trained):
    result, folder = trained
    assert result["curve"][0]["value"] < -800
    found = hambo.json(f"return --env pendulum --policy {folder}/final.safetensors --horizon 200 --episodes 200")
    assert found["value"] > -180, found


def test_the_curve_says_what_was_measured(trained):
    result, folder = trained
    with open(folder / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [2000, 4000, 6000, 8000]
    assert [float(row["return"]) for row in rows] == [point["value"] for point in result["curve"]]
    assert all((folder / f"step-{step}.safetensors").exists() for step in (2000, 4000, 6000))


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_tensorboard_gets_its_events(trained):
    result, folder = trained
    (path,) = folder.glob("events.out.tfevents.*")
    data, events = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12]) == (masked_crc32c(data[:8]),)
        event = data[12 : 12 + length]
        assert struct.unpack("<I", data[12 + length : 16 + length]) == (masked_crc32c(event),)
        events.append(event)
        data = data[16 + length :]
    assert b"brain.Event:2" in events[0] and len(events) == 5
    for event, point in zip(events[1:], result["curve"], strict=True):
        assert b"\x0a\x06return\x15" + struct.pack("<f", point["value"]) in event


def test_a_killed_training_goes_on_to_the_same_end(trained, tmp_path):
    line = f"train --env pendulum --steps 8000 {QUICK} --out killed"
    process = subprocess.Popen([BINARY, *line.split()], cwd=tmp_path, stdout=subprocess.PIPE)
    while not (tmp_path / "killed/training.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    process.kill()
    process.wait()
    again = Hambo(tmp_path).json(line)
    assert again["resumed_at"] in (2000, 4000, 6000)
    assert again["curve"] == trained[0]["curve"]
    for name in ("final.safetensors", "step-6000.safetensors", "curve.csv", "replay.bin"):
        assert (tmp_path / "killed" / name).read_bytes() == (trained[1] / name).read_bytes(), name


def test_other_settings_in_the_same_folder_are_refused(trained):
    line = f"train --env pendulum --steps 9000 {QUICK} --out whole".replace("--seed 1", "--seed 3")
    done = subprocess.run([BINARY, *line.split()], cwd=trained[1].parent, capture_output=True, text=True)
    assert done.returncode == 2
    assert "seed = 1 there, 3 here" in done.stderr
    assert json.dumps(trained[0]["config"]["seed"]) == "1"
