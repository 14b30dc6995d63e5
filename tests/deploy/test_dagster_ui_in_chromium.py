"""The Dagster UI as people use it: the groups, a shard materialized, its rewards, a check, and the end by Ctrl-C.

With `UI_PICTURES=docs/images` it also writes the pictures of `docs/operating.md`.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import free_port, wait_until

from cpmi_dagster.resources.lake.lake import Lake

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or ""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="there is no chromium on this machine"),
]
REWARDS = "labels/step_rewards"
LONGEST, TOAST = 600_000, 8_000
VIEWPORT = {"width": 1300, "height": 800}


@pytest.fixture
def page(own_copy, small_profile, tmp_path):
    """A page of `cpmi ui` on a finished home, from which a shard's rewards have been removed."""
    Lake.of(own_copy).path(REWARDS, "000").unlink()
    port, log = free_port(), tmp_path / "ui.log"
    variables = {**os.environ, "CPMI_HOME": str(own_copy.home)}
    command = [str(Path(sys.executable).with_name("cpmi")), "ui", "--port", str(port), "--profile", small_profile]
    with log.open("w") as stream:
        ui = subprocess.Popen(command, env=variables, stdout=stream, stderr=stream, start_new_session=True)
    try:
        wait_until(lambda: "Serving dagster-webserver" in log.read_text(), 600, "the UI does not start")
        with playwright.sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            context = browser.new_context(base_url=f"http://127.0.0.1:{port}", viewport=VIEWPORT)
            context.set_default_timeout(LONGEST)
            playwright.expect.set_options(timeout=LONGEST)
            yield context.new_page()
            browser.close()
        os.killpg(ui.pid, signal.SIGINT)
        assert ui.wait(600) == 0, log.read_text()
    finally:
        if ui.poll() is None:
            os.killpg(ui.pid, signal.SIGKILL)
            ui.wait()


def picture(page, name: str) -> None:
    if folder := os.environ.get("UI_PICTURES"):
        page.wait_for_timeout(TOAST)
        page.screenshot(path=f"{folder}/{name}.png")


def text(page, found: "str | re.Pattern[str]", exact: bool = False):
    return page.get_by_text(found, exact=exact).first


def test_a_shard_is_materialized_seen_green_and_checked(page):
    expect = playwright.expect
    page.goto("/asset-groups")
    for group in ("sources", "alignment", "selection", "labels", "dataset", "models", "benchmarks", "reports"):
        expect(text(page, group, exact=True)).to_be_visible()

    page.goto(f"/assets/{REWARDS}?view=partitions&partition=000")
    page.get_by_role("button", name=re.compile("Materialize")).first.click()
    page.get_by_role("button", name="Launch 1 run").click()
    run = text(page, re.compile("Launched run")).inner_text().split()[-1]
    text(page, "View", exact=True).click()
    page.wait_for_url(re.compile(f"/runs/{run}"))
    expect(text(page, "Success", exact=True)).to_be_visible()
    picture(page, "ui-run")

    page.goto(f"/assets/{REWARDS}?view=partitions&partition=000")
    expect(page.get_by_role("link", name=run)).to_be_visible()
    expect(text(page, "Materialized", exact=True)).to_be_visible()
    text(page, "[Show Markdown]").click()
    expect(text(page, "from smallest to largest")).to_be_visible()
    text(page, "from smallest to largest").scroll_into_view_if_needed()
    picture(page, "ui-rewards")

    page.goto("/assets/dataset/soft_labels?view=checks&checkDetail=soft_labels_vary")
    expect(text(page, "Passed")).to_be_visible()  # it ran with the table
    text(page, "Execute", exact=True).click()
    expect(text(page, re.compile("Launched run"))).to_be_visible()
