"""Seeds of the fuzz targets from the files of the tests: python fuzz/seeds.py (no packages needed)."""

import io
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
TESTS = HERE.parent / "crates/hambo/tests"
WRITTEN = HERE.parent / "crates/hambo-cli/tests"
REFERENCE = TESTS / "reference"


def seed(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def main():
    for target, pattern in {
        "hdf5": "*.hdf5",
        "minari": "formats/**/*.hdf5",
        "npz": "formats/*.npz",
        "csv": "formats/*.csv",
        "parquet": "formats/*.parquet",
        "arrow": "formats/**/*.arrow",
        "onnx": "*/*.onnx",
        "state_dict": "networks/*.[dp]*",
    }.items():
        for path in REFERENCE.glob(pattern):
            seed(target, path.name, path.read_bytes())
    for path in REFERENCE.glob("formats/*.h5"):
        seed("hdf5", path.name, path.read_bytes())
    for path in REFERENCE.glob("formats/lerobot_*"):
        info = (path / "meta/info.json").read_bytes()
        seed("lerobot", path.name, info + b"\0" + min(path.glob("data/*/*.parquet")).read_bytes())
    for path in REFERENCE.glob("networks/*.p*t*"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                pickled = next(archive.read(n) for n in archive.namelist() if n.endswith("data.pkl"))
                seed("state_dict_pickle", path.name, pickled)
    for path in REFERENCE.glob("formats/*.npz"):
        with zipfile.ZipFile(path) as archive:
            for i, name in enumerate(archive.namelist()):
                seed("npy", f"{path.stem}-{name}", bytes([i]) + archive.read(name))
    for path in REFERENCE.glob("agents/*/agent.zip"):
        kind = path.parent.name
        seed("sb3", kind, path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            seed("sb3_description", kind, archive.read("data"))
            weights = zipfile.ZipFile(io.BytesIO(archive.read("policy.pth")))
            seed("torch", kind, next(weights.read(n) for n in weights.namelist() if n.endswith("data.pkl")))
    for path in REFERENCE.glob("agents/*/vecnormalize.pkl"):
        seed("pickle", path.parent.name, path.read_bytes())
    for i, text in enumerate(
        ["-(s[0]^2 + 0.1*s[1]^2 + 0.001*a[0]^2)", "if(n[0] < 0.7, 1, 0)", "clamp(atan2(s[1], s[0]), -2, 2) / max(1e-6, hypot(s[0], 1))"]
    ):
        seed("expression", str(i), text.encode())
    # What was found before, and what no file of the tests shows.
    for path in [*(TESTS / "corpus").glob("*/*"), *(WRITTEN / "corpus").glob("*/*")]:
        seed(path.parent.name, path.name, path.read_bytes())


if __name__ == "__main__":
    main()
