"""The report in a real browser: Debian's Chromium, driven by Playwright."""

import json
import os
import shutil
import time

import pytest
from conftest import ROOT
from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium, or set CHROMIUM")
FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
FLAGS += "--disable-component-update --disable-sync"
SCREENSHOTS = ROOT / "target/report-screenshots"
SMALL = {"folds": 1, "activation": "relu", "hidden": [32, 32], "steps": 300, "check_every": 100, "patience": 300}


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


class Opened:
    """A page, with what it said and asked for."""

    def __init__(self, browser, path, width=1280, height=900, folded=False, **options):
        self.problems, self.requests = [], []
        self.page = browser.new_page(viewport={"width": width, "height": height}, **options)
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.problems.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        start = time.monotonic()
        self.page.goto(path.as_uri())
        self.screens = self.page.evaluate("document.documentElement.scrollHeight") / height
        if not folded and self.page.locator("#details > summary").count():
            self.page.click("#details > summary")
        self.page.wait_for_function("""() => {
            const seen = [...document.querySelectorAll('.plot')].filter((box) => !box.closest('details:not([open])'));
            return seen.length === 0 || seen.some((box) => box.dataset.drawn);
        }""")
        self.seconds = time.monotonic() - start

    def check(self):
        """Nothing said, nothing fetched, every plot that can be seen drawn, nothing wider than the screen."""
        self.page.wait_for_timeout(50)
        assert self.problems == []
        fetched = [url for url in self.requests if not url.startswith(("file:", "data:"))]
        assert fetched == [] and sum(url.startswith("file:") for url in self.requests) == 1
        blank = self.page.evaluate("""() => [...document.querySelectorAll('.plot')]
            .filter((box) => !box.closest('details:not([open])'))
            .filter((box) => {
                const canvas = box.querySelector('canvas');
                if (!box.dataset.drawn || !canvas) return true;
                const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                const colors = new Set();
                for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3]) colors.add(pixels.slice(i, i + 3).join());
                return colors.size < 3;
            })
            .map((box) => box.dataset.plot)""")
        assert blank == []
        wider = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wider <= 0

    def picture(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def canvas(self, plot):
        return self.page.evaluate(f"document.querySelector('[data-plot={plot}] canvas').toDataURL()")


def number(value):
    """As the program writes numbers, but by Python."""
    if value is None:
        return "-∞"
    text = f"{value:.3e}".replace("e+0", "e").replace("e+", "e") if abs(value) >= 1e7 else f"{value:.{1 if abs(value) >= 1000 else 2}f}"
    return text.lstrip("-") if not text.strip("-0.") else text


@pytest.fixture(scope="module")
def place(hambo):
    (hambo.folder / "small.json").write_text(json.dumps(SMALL))
    hambo.run("collect --env point-safety --policy builtin:waypoint --noise 0.1 --steps 600 --seed 1 --out point.hdf5")
    return hambo


def evaluate(place, out, *words, data="point.hdf5", policy="builtin:waypoint"):
    """An evaluation that takes a second; returns its page and its result."""
    arguments = f"evaluate --data {data} --policy {policy} --model-config small.json --rollouts 200 --out {out}"
    place.run_words([*arguments.split(), *words])
    return place.folder / out / "report.html", json.loads((place.folder / out / "result.json").read_text())


def test_the_report_of_the_demo_opens_and_says_what_the_result_says(browser, demo):
    path = demo["folder"] / "report.html"
    assert path.stat().st_size <= 5e6
    opened = [Opened(browser, path) for _ in range(3)]
    assert min(o.seconds for o in opened) < 2
    page = opened[0].page
    opened[0].check()
    unsafe = demo["policies"][0]
    assert page.inner_text("#headline") == unsafe["summary"]
    assert page.inner_text("#headline").startswith(("NOT SHOWN: bound ", "NOT ENOUGH EVIDENCE: bound "))
    rows = page.query_selector_all("#estimates .row.conservative, #estimates .row.neutral")
    assert len(rows) == len(unsafe["estimates"])
    for row, estimate in zip(rows, unsafe["estimates"]):
        text = row.inner_text()
        assert estimate["method"] in text and number(estimate["value"]) in text
        if estimate["lower_bound"] is not None:
            assert number(estimate["lower_bound"]) in text
    assert number(unsafe["truth"]) in page.inner_text("#estimates")
    opened[0].picture("desktop-details")
    folded = Opened(browser, path, folded=True)
    folded.check()
    folded.picture("desktop")
    assert folded.screens <= 3, "what is before the fold"
    threshold = page.locator("#waterfall .line.threshold").first.bounding_box()
    track = page.locator("#waterfall .track").first.bounding_box()
    assert track["x"] <= threshold["x"] <= track["x"] + track["width"], "the threshold is in the picture"
    safe = Opened(browser, demo["folder"] / "safe.html")
    safe.check()
    assert safe.page.inner_text("#headline") == demo["policies"][1]["summary"]


def test_plots_answer_to_the_reader(browser, demo):
    opened = Opened(browser, demo["folder"] / "report.html")
    page, before = opened.page, opened.canvas("plane")
    page.click("[data-trajectory='0']")
    assert page.get_attribute("[data-trajectory='0']", "class") == "chosen"
    alone = opened.canvas("plane")
    assert alone != before
    page.click("[data-trajectory='0']")
    assert opened.canvas("plane") == before
    page.click("[data-toggle='hallucinated']")
    assert page.get_attribute("[data-toggle='hallucinated']", "aria-pressed") == "false"
    assert opened.canvas("plane") != before
    curves = opened.canvas("distributions")
    page.click("[data-plot='distributions'] .u-legend .u-series:nth-child(2)")
    page.wait_for_timeout(100)
    assert opened.canvas("distributions") != curves
    page.click("summary >> text=entry by entry")
    page.wait_for_selector("[data-plot='band'][data-drawn]")
    box = page.locator("[data-plot='plane'] .u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.check()


def test_phone_dark_and_paper(browser, demo):
    path = demo["folder"] / "report.html"
    phone = Opened(browser, path, width=390, height=844, device_scale_factor=2)
    phone.check()
    phone.picture("phone-details")
    Opened(browser, path, width=390, height=844, device_scale_factor=2, folded=True).picture("phone")
    dark = Opened(browser, path, color_scheme="dark")
    dark.check()
    channels = dark.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(channels) < 64
    dark.picture("dark-details")
    Opened(browser, path, color_scheme="dark", folded=True).picture("dark")
    pdf = dark.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF") and dark.problems == []


def test_a_page_without_its_script_can_be_read(browser, demo):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((demo["folder"] / "report.html").as_uri())
    assert page.inner_text("#headline") == demo["policies"][0]["summary"]
    assert "What data would help" in page.inner_text("main")


def test_names_are_text_and_nothing_else(browser, place):
    name = "</script><img src=x onerror=pwned()><b>\"'&"
    (place.folder / "task.toml").write_text(f"name = {json.dumps(name)}\nreward = \"-hypot(s[0] - 2, s[1])\"\n")
    path, result = evaluate(place, "names", "--task", "task.toml", "--horizon", "15", "--threshold=-1")
    assert result["task"] == name
    opened = Opened(browser, path)
    opened.check()
    assert name in opened.page.inner_text("#verdict")
    assert opened.page.evaluate("document.querySelectorAll('img').length") == 0
    summary = (place.folder / "names/summary.md").read_text()
    assert "<img" not in summary and "&lt;img" in summary


def test_one_step_no_truth_and_numbers_of_any_size(browser, place):
    path, result = evaluate(place, "one", "--env", "point-safety", "--horizon", "1")
    opened = Opened(browser, path)
    opened.check()
    assert result["truth"] is None and "truth" not in opened.page.inner_text("#estimates")
    assert " in 1 step" in opened.page.inner_text("#verdict")
    path, result = evaluate(place, "huge", "--reward=-1e36*s[0]^2", "--horizon", "15", "--method", "dainf,ds")
    opened = Opened(browser, path)
    opened.check()
    assert number(result["lower_bound"]) in opened.page.inner_text("#verdict")


def test_states_of_three_entries_curves_and_truth(browser, place, pendulum_file):
    path, result = evaluate(
        place, "pendulum", *"--env pendulum --horizon 30 --truth-episodes 50 --curves --beta 1 --method ca,ds".split(),
        data=pendulum_file, policy="builtin:swing-up",
    )
    opened = Opened(browser, path)
    opened.check()
    page = opened.page
    assert page.locator("[data-plot='band']").count() == 3 and page.locator("[data-plot='plane']").count() == 0
    assert page.locator("[data-plot='curve']").count() == 3
    assert number(result["truth"]["value"]) in page.inner_text("#verdict")
    for name, full in [("horizon", 30), ("data", result["data"]["transitions"])]:
        curve = result["curves"][name]
        assert [p["at"] for p in curve] == sorted(p["at"] for p in curve)
        assert curve[-1]["at"] == full and curve[-1]["lower_bound"] == result["lower_bound"]
    bounds = [p["lower_bound"] for p in result["curves"]["beta"]]
    assert bounds == sorted(bounds, reverse=True)
    opened.picture("pendulum")


def test_a_ranking_has_all_policies_on_one_axis(browser, place):
    line = "rank --data point.hdf5 --env point-safety --policies builtin:waypoint builtin:waypoint,y=1.3 builtin:waypoint,y=1.1 "
    line += "--horizon 15 --model-config small.json --rollouts 200 --method ca,ds --truth-episodes 2 --out ranking"
    result = place.json(line)
    opened = Opened(browser, place.folder / "ranking/report.html")
    opened.check()
    assert opened.page.inner_text("#headline") == result["summary"]
    rows = opened.page.query_selector_all("#estimates .row.conservative")
    for row, policy in zip(rows, result["policies"], strict=True):
        text = row.inner_text()
        assert policy["name"] in text and number(policy["lower_bound"]) in text
    assert opened.page.locator("#scores tbody tr").count() == 2
    opened.picture("ranking")


def test_the_page_of_a_gaussian_process_has_the_constants_of_the_theory(browser, place):
    (place.folder / "gp.json").write_text(json.dumps({"starts": 1, "likelihood_rows": 60}))
    line = "evaluate --data point.hdf5 --env point-safety --policy builtin:waypoint --horizon 5 --model gp --model-config gp.json "
    line += "--gp-rows 60 --rollouts 200 --beta theory --norm-bound 5 --lipschitz 60,2 --out gp"
    theory = place.json(line)["theory"]
    opened = Opened(browser, place.folder / "gp/report.html")
    opened.check()
    rows = [row.split("\t") for row in opened.page.inner_text("#theory tbody").splitlines()]
    shown = {name: value for name, value, *_ in rows}
    names = {"information gain": "information_gain", "γ_n": "information_rate", "β_n(δ)": "beta", "L_k": "metric_constant"}
    names |= {"L_f": "dynamics_constant", "L_σ": "deviation_constant"}
    for name, field in names.items():
        assert float(shown[name]) == pytest.approx(theory[field], rel=6e-3), name
    for name, field in {"C_n": "log10_gap_constant", "worst-case gap": "log10_gap"}.items():
        assert float(shown[name].removeprefix("10")) == pytest.approx(theory[field], abs=0.051), name
    assert "no longer applies" in opened.page.inner_text("#theory")
    opened.picture("gp")
