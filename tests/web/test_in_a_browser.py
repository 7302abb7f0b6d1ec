"""Every page and every action in a real browser. Skipped, with words, where there is none."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from capataz import App
from capataz.events.facts import Call, Event, Fact, ModelCallStarted, ModelReplied, RunEnded, RunStarted, ToolFinished
from capataz.runtime.inbox import read_waiting
from capataz.web.site import site_for
from tests.web.conftest import ASKING, GOOD, LOOPING, Shop
from tests.web.serving import served

Driver = Any
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
DRIVER = shutil.which("chromedriver")
AXE = os.environ.get("CAPATAZ_AXE", "")
"""Path of axe.min.js, where somebody has it: then it looks too."""


@dataclass
class Place:
    """A served store with one run of each kind."""

    address: str
    app: App
    shop: Shop
    good: str
    other: str
    looping: str
    asking: list[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    path = tmp_path_factory.mktemp("browser") / "log.db"
    app, shop = App(f"sqlite:///{path}"), Shop()

    def record(*steps: Any) -> str:
        shop.refunds.clear()
        return app.run(shop.agent(*steps), "Refund W-8181").run

    good, other, looping = record(*GOOD), record(GOOD[0], GOOD[2]), record(*LOOPING)
    asking = [record(*ASKING) for _ in range(4)]
    site = site_for(app, (shop.agent(GOOD[1], GOOD[2]),))
    site.pace = 0.1
    with served(site) as address:
        yield Place(address, app, shop, good, other, looping, asking)


@pytest.fixture(scope="module")
def browser() -> Iterator[Driver]:
    if BROWSER is None or DRIVER is None:
        pytest.skip("no Chromium with its driver here: on Debian, apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for switch in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    except WebDriverException as error:
        pytest.skip(f"Chromium does not start here: {error.msg}")
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


def pages(place: Place) -> list[str]:
    return [
        "/", "/inbox", f"/inbox/{place.asking[3]}", "/metrics/view", "/metrics/view?by=tool", "/alerts", "/diff",
        f"/diff?a={place.good}&b={place.other}", "/diagnose", "/api", f"/runs/{place.good}", f"/runs/{place.looping}",
        f"/runs/{place.good}/value?v=9350", f"/runs/{place.good}/fork?step=4", f"/runs/{place.good}/events/4",
        "/runs/nothing", "/login",
    ]  # fmt: skip


def look(browser: Driver, theme: str, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def press(browser: Driver, element: Any) -> None:
    """A click that does not mind where the page is scrolled to, and waits until a new page is there."""
    browser.execute_script("arguments[0].click()", element)
    wait(browser, lambda d: d.execute_script("return document.readyState") == "complete")


def said(browser: Driver, what: str) -> str:
    """The text at a place that may be replaced at any moment, in small letters."""
    text = browser.execute_script("return (document.querySelector(arguments[0]) || {}).textContent || ''", what)
    return str(text).strip().lower()


def wait(browser: Driver, until: Any, seconds: float = 20) -> Any:
    return WebDriverWait(browser, seconds, poll_frequency=0.05).until(until)


# ── what every page keeps ────────────────────────────────────────────────────────────────────────────────

CHECK = (Path(__file__).parent / "accessible.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_every_page_can_be_read_by_everybody(browser: Driver, place: Place, theme: str, width: int) -> None:
    look(browser, theme, width)
    for page in pages(place):
        browser.get(place.address + page)
        wrong = browser.execute_script(CHECK)
        assert wrong == [], (page, wrong)
        if AXE:
            browser.execute_script(Path(AXE).read_text(encoding="utf-8"))
            found = browser.execute_async_script(
                "const done = arguments[0];"
                "axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations.map(v => v.id + ': ' +"
                " v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + n.failureSummary).join(' | '))))"
            )
            assert found == [], (page, found)
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth"), page


def test_no_page_asks_another_server_or_breaks_its_own_rules(browser: Driver, place: Place) -> None:
    for page in pages(place):
        browser.get_log("performance")
        browser.get_log("browser")
        browser.get(place.address + page)
        for entry in browser.get_log("performance"):
            for url in re.findall(r'"requestWillBeSent".*?"url":"([a-z]+:[^"]+)"', entry["message"]):
                assert url.startswith((place.address, "data:")), (page, url)
        loud = [entry["message"] for entry in browser.get_log("browser") if "404 (Not Found)" not in entry["message"]]
        assert loud == [], page


# ── what one does there ──────────────────────────────────────────────────────────────────────────────────


def test_the_list_is_filtered_and_a_run_opened(browser: Driver, place: Place) -> None:
    look(browser, "light", 1200)
    browser.get(place.address)
    Select(browser.find_element(By.NAME, "outcome")).select_by_visible_text("completed")
    browser.find_element(By.CSS_SELECTOR, ".filters button").click()
    rows = browser.find_elements(By.CSS_SELECTOR, "table.runs tbody tr")
    assert rows
    assert all("completed" in row.text for row in rows)
    rows[-1].find_element(By.CSS_SELECTOR, "td.task a").click()
    assert "completed" in said(browser, ".why .outcome")


def test_keys_move_through_the_turns_and_to_the_search(browser: Driver, place: Place) -> None:
    browser.get(f"{place.address}/runs/{place.looping}")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("j")
    assert browser.execute_script("return document.activeElement.className") == "turn"
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    assert browser.execute_script("return document.activeElement.name") == "v"
    browser.get(place.address)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.execute_script("return document.activeElement.className") == "skip"


def test_evidence_is_one_click_away_and_marked(browser: Driver, place: Place) -> None:
    browser.get(f"{place.address}/runs/{place.looping}")
    press(browser, browser.find_element(By.CSS_SELECTOR, '.why a[aria-label="verdict 1"]'))
    assert browser.current_url.endswith("#v1")
    verdict = browser.find_element(By.ID, "v1")
    assert verdict.is_displayed()
    press(browser, verdict.find_element(By.CSS_SELECTOR, ".refs a"))
    assert browser.find_elements(By.CSS_SELECTOR, ".call.proof")


def test_a_click_on_a_value_says_where_it_comes_from(browser: Driver, place: Place) -> None:
    browser.get(f"{place.address}/runs/{place.good}")
    values = browser.find_elements(By.CSS_SELECTOR, "a.v")
    press(browser, next(value for value in values if value.text == "9350"))
    assert "No source" in browser.find_element(By.CSS_SELECTOR, ".verdictline").text
    field = browser.find_element(By.NAME, "v")
    field.clear()
    field.send_keys("93.5", Keys.ENTER)
    wait(browser, lambda d: "First said from outside" in d.find_element(By.CSS_SELECTOR, ".verdictline").text)


def test_two_runs_are_laid_side_by_side(browser: Driver, place: Place) -> None:
    browser.get(f"{place.address}/diff")
    browser.find_element(By.NAME, "a").send_keys(place.good)
    browser.find_element(By.NAME, "b").send_keys(place.other, Keys.ENTER)
    wait(browser, lambda d: d.find_elements(By.CSS_SELECTOR, "tr.diverges"))
    assert "first divergence" in browser.find_element(By.CSS_SELECTOR, "tr.diverges").text


def test_a_picture_leads_to_the_turn(browser: Driver, place: Place) -> None:
    browser.get(f"{place.address}/runs/{place.looping}")
    box = browser.find_elements(By.CSS_SELECTOR, ".picture a")[-1]
    browser.get(browser.execute_script("return arguments[0].href.baseVal", box).join((place.address, "")))
    assert "#i" in browser.current_url


def waits(place: Place, run: str) -> bool:
    return read_waiting(asyncio.run(place.app.store.read(run))) is not None


@pytest.mark.parametrize(
    ("index", "legend", "fill"),
    [(0, "Approve", {}), (1, "Reject", {"text": "not today"}), (2, "Correct", {}), (3, "End the run", {"text": "no"})],
)
def test_an_answer_is_given_on_the_page(
    browser: Driver, place: Place, index: int, legend: str, fill: dict[str, str]
) -> None:
    run = place.asking[index]
    browser.get(f"{place.address}/inbox/{run}")
    box = next(
        each
        for each in browser.find_elements(By.TAG_NAME, "fieldset")
        if each.find_element(By.TAG_NAME, "legend").text == legend
    )
    for name, text in fill.items():
        box.find_element(By.NAME, name).send_keys(text)
    assert waits(place, run)
    press(browser, box.find_element(By.TAG_NAME, "button"))
    wait(browser, lambda d: d.current_url.endswith(f"/runs/{run}"))
    assert not waits(place, run)


def test_a_run_is_forked_on_the_page_and_watched_to_its_end(browser: Driver, place: Place) -> None:
    place.shop.refunds.clear()
    browser.get(f"{place.address}/runs/{place.good}")
    press(browser, browser.find_element(By.LINK_TEXT, "fork here"))
    press(browser, browser.find_element(By.NAME, "edit_result"))
    field = browser.find_element(By.NAME, "result")
    field.clear()
    field.send_keys('{"state": "unpaid"}')
    press(browser, browser.find_element(By.XPATH, "//button[text()='Fork and run']"))
    wait(browser, lambda d: "dry-run" in said(d, "header.top"))
    wait(browser, lambda d: said(d, ".why .outcome") != "running")
    assert place.shop.refunds == []


def test_records_are_uploaded_and_diagnosed(browser: Driver, place: Place, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text('{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "done"}]}')
    browser.get(f"{place.address}/diagnose")
    browser.find_element(By.NAME, "records").send_keys(str(file))
    browser.find_element(By.XPATH, "//button[text()='Diagnose']").click()
    wait(browser, lambda d: "chat.json" in d.page_source)


def grow(place: Place, run: str, go: threading.Event) -> None:
    """A run that goes on while it is watched."""

    async def write() -> None:
        async with App(place.app.store_url) as app:
            lease = await app.store.claim(run, "grower")
            call = Call(1, 0, "c", "find_order", {"order": "W-1"}, "read")
            facts: list[Fact] = [
                RunStarted(run, "support", "Grow"),
                ModelCallStarted(1, 0, "m"),
                ModelReplied(1, 0, "", (call,)),
            ]
            now = time.time()
            await app.store.append(lease, 0, [Event(seq, now, fact) for seq, fact in enumerate(facts)])
            await asyncio.to_thread(go.wait, 30)
            later: list[Fact] = [
                ToolFinished(call, "found"),
                ModelReplied(2, 0, "It is <b>there</b>."),
                RunEnded("answered", "answered", answer="It is there."),
            ]
            for seq, fact in enumerate(later, 3):
                await app.store.append(lease, seq, [Event(seq, time.time(), fact)])
                await asyncio.sleep(0.3)

    asyncio.run(write())


def test_a_run_that_goes_on_is_followed_without_reloading(browser: Driver, place: Place) -> None:
    go = threading.Event()
    thread = threading.Thread(target=grow, args=(place, "growing-run", go))
    thread.start()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        browser.get(f"{place.address}/runs/growing-run")
        if browser.find_elements(By.CSS_SELECTOR, ".why .outcome"):
            break
        time.sleep(0.1)
    browser.execute_script("window.stayed = true")
    assert said(browser, ".why .outcome") == "running"
    go.set()
    wait(browser, lambda d: said(d, ".why .outcome").startswith("answered"))
    assert browser.execute_script("return window.stayed")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".turn")) == 2
    assert "it is <b>there</b>." in said(browser, "#i1")
    thread.join(30)
