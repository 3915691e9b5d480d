"""Users' code and the package itself pass mypy --strict."""

import subprocess
import sys
from pathlib import Path

import hambo

HERE = Path(__file__).parent


def mypy(*words, cwd):
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_a_sample_of_user_code(tmp_path):
    done = mypy(str(HERE / "sample.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    wrong = (HERE / "sample.py").read_text().replace("horizon=10, reward", 'horizon="ten", rewrad')
    (tmp_path / "wrong.py").write_text(wrong)
    assert mypy("wrong.py", cwd=tmp_path).stdout.count("error") >= 2


def test_the_package(tmp_path):
    done = mypy("-p", "hambo", "--ignore-missing-imports", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_stubs_name_what_there_is():
    from hambo import _hambo

    stub = Path(hambo.__file__).with_name("_hambo.pyi").read_text()
    for name in dir(_hambo):
        if not name.startswith("_"):
            assert f"def {name}(" in stub or f"class {name}:" in stub, name
