"""The label explorer in a browser: solutions are judged by keys alone, and nothing comes from a network."""

import shutil
import socket
import threading

import pytest
import uvicorn
from explorer_home import made_up_home

from cpmi_dagster.resources.explorer.app import explorer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
LONGEST = 300_000
CHROMIUM = shutil.which("chromium") or ""
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine")
TWICE = """key => [1, 2].forEach(() =>
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})))"""


@pytest.fixture
def page(tmp_path):
    """A page of an explorer of made-up labels; the test fails if the browser complains or asks another server."""
    server = uvicorn.Server(uvicorn.Config(explorer(made_up_home(tmp_path)), log_level="warning"))
    complaints = []
    playwright.expect.set_options(timeout=LONGEST)
    with socket.create_server(("127.0.0.1", 0)) as listening, playwright.sync_playwright() as started:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(base_url=address)
        opened.set_default_timeout(LONGEST)
        opened.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on("request", lambda asked: None if asked.url.startswith(address) else complaints.append(asked.url))
        yield opened
        browser.close()
        server.should_exit = True
        thread.join()
    assert not complaints


def test_judged_solutions_give_the_figures_that_one_computes_by_hand(page):
    def judged(count: int) -> None:
        playwright.expect(page.locator("#judged")).to_have_text(str(count))

    page.goto("/queue")
    page.locator("#annotator").fill("ann")
    page.keyboard.press("Enter")
    judged(0)
    keys = ["a", "0", "1", "2"] * 5  # an interval needs ten solutions with a wrong step
    for place, key in enumerate(keys):
        # twice at once: the second is of no effect, or it would judge the next solution
        page.evaluate(TWICE, key) if place % 2 else page.keyboard.press(key)
        judged(place + 1)
    page.keyboard.press("u")
    judged(len(keys) - 1)
    page.keyboard.press(keys[-1])
    judged(len(keys))
    page.locator("header a", has_text="Your figures").click()
    # by hand, without the last step, which is 2; rewards are step / 4
    said = [(step, key == "a" or step < int(key)) for key in keys for step in (0, 1) if key == "a" or step <= int(key)]
    right, wrong = ([step for step, is_right in said if is_right == kind] for kind in (True, False))
    pairs = [(one > other) + (one == other) / 2 for one in right for other in wrong]
    row = page.locator("#aucs tbody tr").first.locator("td")
    playwright.expect(row.nth(1)).to_contain_text(f"{sum(pairs) / len(pairs):.3f} ")
    playwright.expect(row.nth(2)).to_have_text(str(len(said)))
