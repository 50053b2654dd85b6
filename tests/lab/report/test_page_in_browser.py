"""The page in a real browser: it draws, responds to the mouse, makes no requests and runs no injected script."""

import csv
import io
import json
import shutil
import time

import pytest
from tests.lab import factory

from aon.lab.report import output
from aon.lab.report.page import html

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs Debian's packages chromium and chromium-driver"
)
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'><svg onload='window.hacked=1'>"
# As root in a closed network: without the later ones the browser itself looks for Google's hosts.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser, tmp_path):
    """Write a comparison's page and open it at a width."""

    def open_page(records, width=1100, **fields):
        page = tmp_path / "report.html"
        page.write_text(html(*output.load_results([factory.write(tmp_path, records, **fields)])))
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(page.as_uri())
        return browser

    return open_page


def requests(browser):
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith("chrome:")]  # its own first tab, still loading on a busy machine


def hover(browser, element_id, dx=0, dy=0):
    from selenium.webdriver.common.action_chains import ActionChains

    target = browser.find_element("id", element_id)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
    ActionChains(browser).move_to_element_with_offset(target, dx, dy).perform()
    return browser.find_element("id", "tip").text


def count(browser, selector):
    return len(browser.find_elements("css selector", selector))


def test_it_draws_without_a_complaint_and_asks_for_nothing(show):
    browser = show(factory.comparison(epochs=6))
    assert count(browser, "#loss path.line") == count(browser, "#accuracy path.line") == 6
    assert count(browser, "#by-layer circle.dot") == factory.LAYERS
    assert count(browser, "#over-time path.line") == factory.LAYERS
    assert count(browser, "#runs circle.open") == 9
    assert count(browser, "#orthonormality circle.dot") == 3
    assert browser.get_log("browser") == []
    assert [url for url in requests(browser) if not url.startswith(("file:", "data:"))] == []


def test_hover_shows_the_values_of_the_epoch(show):
    records = factory.comparison(epochs=7)
    browser = show(records)
    shown = hover(browser, "accuracy", dx=19)  # the plot lies between 46 pixels from the left and 8 from the right
    assert shown.startswith("epoch 4")
    best = max((run for run in records if run.label == "BN"), key=lambda run: run.best.val_accuracy)
    assert f"{best.epochs[3].val_accuracy:.2f}" in shown
    assert "BN+AON(q=2), validation" in shown
    hover(browser, "verdict")
    assert not browser.find_element("id", "tip").is_displayed()


def test_hover_shows_single_runs_and_layers(show):
    browser = show(factory.comparison(epochs=4))
    assert "last epoch" in hover(browser, "runs") or "mean" in hover(browser, "runs")
    assert "orthonormality error" in hover(browser, "orthonormality")
    assert "features." in hover(browser, "by-layer")
    assert "features." in hover(browser, "over-time")


def test_arrow_keys_move_the_tip(show):
    from selenium.webdriver.common.keys import Keys

    browser = show(factory.comparison(epochs=5))
    browser.find_element("id", "loss").send_keys(Keys.ARROW_LEFT)
    assert browser.find_element("id", "tip").text.startswith("epoch 4")
    browser.find_element("id", "loss").send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert browser.find_element("id", "tip").text.startswith("epoch 2")
    browser.find_element("id", "loss").send_keys(Keys.ESCAPE)
    assert not browser.find_element("id", "tip").is_displayed()


def test_arrow_keys_go_from_run_to_run(show):
    from selenium.webdriver.common.keys import Keys

    browser = show(factory.comparison(("bn", "bn+aon"), seeds=[0, 1], epochs=2))
    titles = []
    for _ in range(6):
        browser.find_element("id", "runs").send_keys(Keys.ARROW_RIGHT)
        titles.append(browser.find_element("css selector", "#tip b").text)
    assert titles == ["BN, seed 0", "BN, seed 1", *["BN+AON(q=2)"] * 1, *[f"BN+AON(q=2), seed {k}" for k in (0, 1, 1)]]


def test_runs_stand_below_their_setting(show):
    records = [run for rate in (0.05, 0.2) for run in factory.comparison(epochs=2, learning_rate=rate)]
    browser = show(records)
    texts = [text.text for text in browser.find_elements("css selector", "#runs text")]
    for place, heading in ((0, "learning rate 0.05"), (4, "learning rate 0.2")):
        own = [text for text in texts if "BN" in text or "rate" in text][place : place + 4]
        assert own == [heading, "BN", "BN+orthonormal", "BN+AON(q=2)"]
    assert count(browser, "#runs circle.open") == 18


def test_controls_choose_what_is_shown(show):
    browser = show(factory.comparison(epochs=5))
    browser.find_element("css selector", "#legend button").click()
    assert count(browser, "#loss path.line") == 4
    assert count(browser, "#loss path.band") == 0
    browser.find_element("id", "show-mean").click()
    assert count(browser, "#loss path.band") == 4
    assert "±" in hover(browser, "accuracy")
    before = browser.find_element("id", "loss").get_attribute("innerHTML")
    browser.find_element("id", "log").click()
    assert browser.find_element("id", "loss").get_attribute("innerHTML") != before
    browser.find_elements("css selector", "#spectra-parts button")[2].click()
    assert browser.get_log("browser") == []


def test_a_setting_is_chosen_by_its_button(show):
    browser = show([run for rate in (0.1, 0.2) for run in factory.comparison(epochs=3, learning_rate=rate)])
    assert count(browser, "#loss path.line") == 6
    assert "Setting: learning rate 0.1." in browser.find_element("id", "what").text
    before = browser.find_element("id", "loss").get_attribute("innerHTML")
    browser.find_elements("css selector", "#curve-settings button")[1].click()
    assert "Setting: learning rate 0.2." in browser.find_element("id", "what").text
    assert browser.find_element("id", "loss").get_attribute("innerHTML") != before
    assert browser.get_log("browser") == []


def test_methods_beyond_the_palette_have_marks_on_their_curves(show):
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, 23))]
    browser = show(factory.comparison(methods, seeds=[0], epochs=4, spectra=False))
    assert count(browser, "#legend button") == 23
    assert count(browser, "#loss path.line") == 46
    assert count(browser, "#loss circle.open") == 10 * 2 * 4  # methods, kinds, epochs
    assert browser.get_log("browser") == []


def test_curves_are_downloaded_as_csv(show, browser, tmp_path):
    folder = tmp_path / "downloads"
    folder.mkdir()
    records = factory.comparison(epochs=5)
    show(records)
    browser.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    browser.find_element("id", "download").click()
    end = time.monotonic() + 60
    while not (folder / "curves.csv").exists():
        assert time.monotonic() < end, list(folder.iterdir())
        time.sleep(0.05)
    lines = list(csv.DictReader(io.StringIO((folder / "curves.csv").read_text())))
    assert len(lines) == 3 * 2 * 2 * 5  # methods, quantities, kinds, epochs
    best = max((run for run in records if run.label == "BN"), key=lambda run: run.best.val_accuracy)
    own = [line for line in lines if (line["method"], line["kind"]) == ("BN", "validation")]
    found = [float(line["best run"]) for line in own if line["quantity"] == "accuracy (%)"]
    assert found == pytest.approx([epoch.val_accuracy for epoch in best.epochs], rel=1e-4)


def test_on_paper_the_legend_and_every_column_are_there(show, browser):
    methods = ["bn", *(f"bn+orth:beta={n}" for n in range(1, 23))]
    show(factory.comparison(methods, seeds=[0, 1], epochs=2, spectra=False), width=700)  # A4 between its margins
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        browser.execute_script("dispatchEvent(new Event('beforeprint'))")
        wide = "return [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 701)"
        assert [element.get_attribute("outerHTML")[:80] for element in browser.execute_script(wide)] == []
        assert browser.find_element("css selector", "#legend button").is_displayed()
        assert not browser.find_element("id", "show-mean").is_displayed()
        assert browser.find_element("id", "what").is_displayed()
        heads = browser.find_elements("css selector", "table.runs thead th")
        assert len(heads) == 10
        assert [
            head.text for head in heads if not head.is_displayed() or head.rect["x"] + head.rect["width"] > 701
        ] == []
        look = "return getComputedStyle(document.querySelector('.swatch')).printColorAdjust"
        assert browser.execute_script(look) == "exact"
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_nothing_sticks_out_at_any_width(show, width):
    browser = show(factory.comparison(epochs=3), width=width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_hostile_name_stays_a_name(show):
    records = [
        factory.record("bn+aon", label=HOSTILE, dataset=HOSTILE, epochs=2),
        factory.record("bn", dataset=HOSTILE, epochs=2),
        factory.record("bn", 1, dataset=HOSTILE, status="failed", error=HOSTILE, done=1, epochs=2),
    ]
    browser = show(records, name=HOSTILE, command=["aon", HOSTILE])
    for element_id in ("accuracy", "runs", "by-layer", "over-time"):
        hover(browser, element_id)
    assert browser.execute_script("return window.hacked") is None
    assert HOSTILE in browser.find_element("id", "legend").text
    assert count(browser, "img") == 0
    assert browser.get_log("browser") == []
    assert [url for url in requests(browser) if not url.startswith(("file:", "data:"))] == []


def test_the_policy_alone_would_stop_a_script_that_got_in(show):
    """Escaping is the first wall; this shows that the second one stands too."""
    browser = show(factory.comparison(("bn",), seeds=[0], epochs=1))
    browser.execute_script("document.body.insertAdjacentHTML('beforeend', `<img src=x onerror='window.hacked=1'>`)")
    browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked=2'; document.body.append(s)"
    )
    assert browser.execute_script("return window.hacked") is None
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


@pytest.mark.parametrize(
    "records",
    [
        [factory.record("bn", status="running", done=0)],
        [factory.record("bn", status="running", done=1), factory.record("bn+aon", status="failed", done=0, error="x")],
        factory.comparison(("bn+orth", "bn+aon"), seeds=[0], epochs=1),
    ],
    ids=["nothing yet", "one epoch", "single seed"],
)
def test_partial_comparisons_draw_without_a_complaint(show, records):
    browser = show(records)
    for element_id in ("runs", "loss", "accuracy"):
        hover(browser, element_id)
    assert browser.get_log("browser") == []
