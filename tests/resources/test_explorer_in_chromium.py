"""The label explorer in a browser: keys, search as one types, mathematics, verdicts, and nothing from a network."""

import re
import shutil
import socket
import threading

import pytest
import uvicorn
from explorer_home import identifier, made_up_home

from cpmi_dagster.resources.web.explorer.app import explorer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
LONGEST = 300_000
CHROMIUM = shutil.which("chromium") or ""
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    """The file of the annotators' labels."""
    return tmp_path_factory.mktemp("labels") / "own_labels.jsonl"


@pytest.fixture(scope="module")
def address(tmp_path_factory, labels):
    """Where an explorer of made-up labels is served; its questions are longer than a screen."""
    app = explorer(made_up_home(tmp_path_factory.mktemp("explorer"), more="\nAnd so on." * 100), labels)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser, address):
    """A page; the test fails where the browser complains, or asks another server for anything."""
    playwright.expect.set_options(timeout=LONGEST)
    context = browser.new_context(base_url=address)
    context.set_default_timeout(LONGEST)
    opened, complaints = context.new_page(), []
    opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda asked: None if asked.url.startswith(address) else complaints.append(asked.url))
    yield opened
    context.close()
    assert not complaints


def heading(page, text: str) -> None:
    playwright.expect(page.locator("h1")).to_contain_text(text)


def test_keys_and_boxes_lead_through_trajectories_steps_and_reward_types(page, address):
    page.goto(f"/trajectory/{identifier(3)}?types=mc")
    page.keyboard.press("j")
    heading(page, identifier(4))
    playwright.expect(page).to_have_url(f"{address}/trajectory/{identifier(4)}?types=mc")
    page.keyboard.press("k")
    heading(page, identifier(3))
    page.keyboard.press("n")
    playwright.expect(page.locator("tr.chosen a.step")).to_have_text("1")
    page.locator("summary", has_text="Reward types").click()
    # not `check`, which looks at the box again while the page that it asked for replaces it
    page.locator("input[type=checkbox][value=cpmi]").click()
    playwright.expect(page.locator("table.steps th", has_text="cpmi")).to_be_visible()


def test_the_list_is_searched_as_one_types(page, address):
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("question 42")
    playwright.expect(page.locator("tr[data-row]")).to_have_count(1)
    playwright.expect(page).to_have_url(re.compile(re.escape(f"{address}/?search=question+42")))
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    heading(page, identifier(42))


def say_name(page, name: str) -> None:
    page.goto("/queue")
    page.locator("summary", has_text="has judged").click() if page.locator("#asked").count() else None
    page.locator("#annotator").fill(name)
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#judged")).to_have_text("0")


TWICE = """key => [1, 2].forEach(() =>
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})))"""


def judge(page, keys: list[str]) -> None:
    """Judge the next solutions of the queue by keys alone."""
    for place, key in enumerate(keys):
        # twice at once: the second is of no effect, or it would judge the next solution
        page.evaluate(TWICE, key) if place % 2 else page.keyboard.press(key)
        playwright.expect(page.locator("#judged")).to_have_text(str(place + 1))


def test_judged_solutions_give_the_figures_that_one_computes_by_hand(page, labels):
    labels.unlink(missing_ok=True)
    say_name(page, "ann")
    page.keyboard.press(" ")
    playwright.expect(page.locator("form.whole a")).to_have_attribute("href", "/queue?place=2")
    keys = ["a", "0", "1", "2"] * 3
    judge(page, keys)
    page.keyboard.press("u")
    playwright.expect(page.locator("#judged")).to_have_text(str(len(keys) - 1))
    page.keyboard.press(keys[-1])
    playwright.expect(page.locator("#judged")).to_have_text(str(len(keys)))
    page.locator("header a", has_text="Your figures").click()
    heading(page, "What your judgements say")
    # by hand, without the last step, which is 2; rewards are step / 4
    said = [(step, key == "a" or step < int(key)) for key in keys for step in (0, 1) if key == "a" or step <= int(key)]
    right, wrong = ([step for step, is_right in said if is_right == kind] for kind in (True, False))
    pairs = [(one > other) + (one == other) / 2 for one in right for other in wrong]
    row = page.locator("#aucs tbody tr").first.locator("td")
    playwright.expect(row.nth(1)).to_contain_text(f"{sum(pairs) / len(pairs):.3f} ")
    playwright.expect(row.nth(2)).to_have_text(str(len(said)))
