"""The guide: every command, every block of Python and every workflow in docs/guide does what the page says.

Pages are played in order, in one folder, as a reader would. A block of text after a block of code is its output: its words have to be there in this order,
numbers may differ by a quarter (other processors round otherwise), and a line with … stands for any lines.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import BINARY, ROOT
from shown import missing

pytest.importorskip("hambo")

GUIDE = ROOT / "docs/guide"
PAGES = ["1-first-bound.md", "2-your-logs.md", "3-your-policy.md", "4-the-report.md", "5-deciding.md", "sb3-and-csv.md", "gate-a-build.md"]


def blocks(page):
    """The language and the text of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (GUIDE / page).read_text(), flags=re.S | re.M)


class Reader:
    """Plays pages in a folder, each at most once."""

    def __init__(self, folder):
        self.folder, self.played = folder, {}

    def play(self, page):
        """Also what comes before it."""
        for earlier in PAGES[: PAGES.index(page) + 1]:
            if earlier not in self.played:
                self.played[earlier] = list(self.steps(earlier))
        return self.played[page]

    def steps(self, page):
        """What each block printed, beside what the page shows."""
        names, printed, code = {}, None, ""
        for language, text in blocks(page):
            if language == "text":
                assert printed is not None, f"{page}: output of nothing:\n{text}"
                yield code, text, printed
                continue
            code, printed = text, None
            if language == "sh":
                printed = self.shell(text)
            elif language == "python":
                printed = self.python(text, names, page)
            elif language == "yaml":
                printed = self.workflow(text)
            else:
                pytest.fail(f"{page}: nobody runs a block of {language or 'no language'}:\n{text}")

    def shell(self, text, **env):
        known = {**os.environ, "PATH": f"{BINARY.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "100", **env}
        done = subprocess.run(["bash", "-ec", text], cwd=self.folder, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def python(self, text, names, page):
        out, before = io.StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(text, page, "exec"), names)
        finally:
            os.chdir(before)
        return out.getvalue()

    def workflow(self, text):
        """What the steps of the workflow print; those that install are left out, since what is tested is installed already."""
        page = self.folder / "step-summary.md"
        page.unlink(missing_ok=True)
        jobs = yaml.safe_load(text)["jobs"]
        steps = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        steps = [step for step in steps if "install" not in step]
        assert steps, text
        printed = "".join(self.shell(step, GITHUB_STEP_SUMMARY=str(page)) for step in steps)
        return printed + (page.read_text() if page.exists() else "")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guide")
    (folder / "checkpoints").symlink_to(ROOT / "checkpoints")
    return Reader(folder)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_does_what_it_says(reader, page):
    for code, shown, printed in reader.play(page):
        assert missing(shown, printed) is None, f"{page}: {missing(shown, printed)!r}\n--- of\n{code}\n--- shown\n{shown}\n--- printed\n{printed}"


def test_all_pages_are_played_and_linked():
    assert sorted(PAGES) == sorted(path.name for path in GUIDE.glob("*.md") if path.name != "README.md")
    index = (GUIDE / "README.md").read_text()
    for page in PAGES:
        assert f"({page})" in index, page
        assert blocks(page), page
    for page, following in zip(PAGES[:4], PAGES[1:5], strict=True):
        assert f"({following})" in (GUIDE / page).read_text(), f"{page} leads to {following}"


def test_lines_are_compared_by_words_and_roughly_by_numbers():
    assert missing("bound -10.0\n…\nend\n", "bound   -11.5\nx\ny\nend\n") is None
    assert missing("bound -10.0\n", "bound -20.0\n") == "bound -10.0"
    assert missing("bound -10.0\nend\n", "bound -10.0\nx\nend\n") == "end"
    assert missing("bound\n", "bound\nmore\n") == "(the end; there is more:) more"
