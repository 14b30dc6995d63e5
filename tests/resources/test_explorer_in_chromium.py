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
def address(tmp_path_factory):
    """Where an explorer of made-up labels is served."""
    folder = tmp_path_factory.mktemp("explorer")
    app = explorer(made_up_home(folder / "home"), folder / "own_labels.jsonl")
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
    playwright.expect(page.locator("h1")).to_have_text(text)


def test_j_and_k_go_to_the_next_trajectory_and_back(page, address):
    page.goto(f"/trajectory/{identifier(3)}?types=mc")
    page.keyboard.press("j")
    heading(page, identifier(4))
    playwright.expect(page).to_have_url(f"{address}/trajectory/{identifier(4)}?types=mc")
    page.keyboard.press("k")
    heading(page, identifier(3))
    page.go_back()
    heading(page, identifier(4))


def test_n_goes_to_the_next_step(page):
    page.goto(f"/trajectory/{identifier(3)}")
    page.keyboard.press("n")
    playwright.expect(page.locator("tr.chosen a.step")).to_have_text("1")


def test_the_list_is_searched_as_one_types(page, address):
    page.goto("/")
    page.keyboard.press("/")
    playwright.expect(page.locator("input[name=search]")).to_be_focused()
    page.keyboard.type("question 42")
    playwright.expect(page.locator("tr[data-row]")).to_have_count(1)
    playwright.expect(page).to_have_url(re.compile(re.escape(f"{address}/?search=question+42")))
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    heading(page, identifier(42))


def test_a_question_mark_opens_the_keys(page):
    page.goto("/")
    page.keyboard.press("?")
    playwright.expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    playwright.expect(page.locator("dialog")).to_be_hidden()


def test_mathematics_is_typeset_and_hostile_text_stays_text(page):
    page.goto(f"/trajectory/{identifier(7)}")
    playwright.expect(page.locator(".problem .katex")).to_have_count(1)
    playwright.expect(page.locator(".problem")).to_contain_text("<script>alert('x')</script>")


@pytest.mark.parametrize(
    "formula",
    [r"\frac{1}{" * 500 + "2" + "}" * 500, r"\begin{matrix}" * 150 + "x" + r"\end{matrix}" * 150, r"\bf " * 900 + "x"],
    ids=["fractions", "matrices", "switches"],
)
def test_a_formula_that_is_nested_too_deep_stays_text(page, formula):
    page.goto(f"/trajectory/{identifier(3)}")
    page.evaluate(
        """(text) => {
            const place = document.querySelector(".problem");
            place.textContent = text;
            delete place.dataset.typeset;
            typesetAll();
        }""",
        f"So ${formula}$, and $x^2$.",
    )
    problem = page.locator(".problem")
    playwright.expect(problem).to_contain_text(f"So ${formula}$, and ")
    playwright.expect(problem.locator(".katex")).to_have_count(1)


def test_a_verdict_is_kept_and_shown_without_leaving_the_step(page, address):
    page.goto(f"/trajectory/{identifier(3)}?types=mc&step=1")
    page.locator("tr.chosen button[value=wrong]").click()
    playwright.expect(page.locator("tr.chosen button[value=wrong]")).to_have_attribute("aria-pressed", "true")
    playwright.expect(page.locator("tr.chosen")).to_contain_text("wrong")
    playwright.expect(page).to_have_url(f"{address}/trajectory/{identifier(3)}?types=mc&step=1")
    page.reload()
    playwright.expect(page.locator("[aria-pressed=true]")).to_have_count(1)


def test_figures_follow_the_page(page):
    page.goto("/disagreement?first=cpmi&second=mc")
    playwright.expect(page.locator("#figures tr[data-row]").first).to_contain_text(identifier(90))
    page.locator("header a", has_text="Distributions").click()
    playwright.expect(page.locator("svg.histogram")).to_have_count(3)


def test_reward_types_are_chosen_by_ticking_them(page, address):
    page.goto(f"/trajectory/{identifier(3)}?types=mc")
    page.locator("summary", has_text="Reward types").click()
    # not `check`, which looks at the box again while the page that it asked for replaces it
    page.locator("input[type=checkbox][value=cpmi]").click()
    playwright.expect(page.locator("table.steps th", has_text="cpmi")).to_be_visible()
    playwright.expect(page).to_have_url(re.compile("types=mc.*types=cpmi|types=cpmi.*types=mc"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_every_colour(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(f"/trajectory/{identifier(3)}")
    contrasts = page.evaluate(
        """() => {
            const light = (colour) => {
                const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
                    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            const ink = light(getComputedStyle(document.body).color);
            return [...document.querySelectorAll(".legend i")].map((shade) => {
                const ground = light(getComputedStyle(shade).backgroundColor);
                return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
            });
        }"""
    )
    assert len(contrasts) == 11 and min(contrasts) >= 4.5
