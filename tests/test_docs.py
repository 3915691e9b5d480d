"""The documents: links lead somewhere, and the paper's map names files that exist."""

import re

import pytest
from conftest import ROOT

NAMED = {"": "crates/hambo/src/", "engine:": "crates/hambo-engine/src/", "envs:": "crates/hambo-envs/src/", "cli:": "crates/hambo-cli/src/"}
DOCUMENTS = [*ROOT.glob("*.md"), *(path for folder in ("bench", "checkpoints", "docs", "fuzz") for path in (ROOT / folder).rglob("*.md"))]
DOCUMENTS = sorted(str(path.relative_to(ROOT)) for path in DOCUMENTS if ".venv" not in path.parts)


def anchors(text):
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_relative_links_lead_somewhere(document):
    path = ROOT / document
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = path.parent / target if target else path
        assert file.exists(), f"{document}: {link}"
        assert not anchor or anchor in anchors(file.read_text()), f"{document}: {link}"


def test_the_papers_map_names_files_that_exist():
    text = (ROOT / "docs/paper-map.md").read_text()
    places = re.findall(r"`((?:engine:|envs:|cli:)?)([\w./]+(?:/|\.rs|\.py))`", text)
    assert len(places) > 60
    for crate, place in places:
        tests = (ROOT / NAMED[crate]).parent if place.startswith("tests/") else ROOT / NAMED[crate]
        assert (tests / place).exists() or (ROOT / place).exists(), f"{crate}{place}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110


def test_the_oldest_rust_is_the_same_everywhere():
    oldest = re.search(r'^rust-version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), flags=re.M)[1]
    for document in ("README.md", "docs/python.md"):
        assert set(re.findall(r"Rust (\d\.\d+)", (ROOT / document).read_text())) == {oldest}, document


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110


def test_releases_are_for_the_machines_that_the_readme_names_and_have_checksums():
    workflow = (ROOT / ".github/workflows/release.yml").read_text()
    for target in ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin"):
        assert f"target: {target} " in workflow, target
    assert "sha256sum" in workflow and "maturin-action" in workflow
