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
SCREENS = (1280, 420)
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


def typeset(page, place: str, text: str) -> None:
    """Have a place of the page say another text."""
    page.evaluate(
        """([place, text]) => {
            const node = document.querySelector(place);
            node.textContent = text;
            delete node.dataset.typeset;
            typesetAll();
        }""",
        [place, text],
    )


@pytest.mark.parametrize(
    "formula",
    [r"\frac{1}{" * 500 + "2" + "}" * 500, r"\begin{matrix}" * 150 + "x" + r"\end{matrix}" * 150, r"\bf " * 900 + "x"],
    ids=["fractions", "matrices", "switches"],
)
def test_a_formula_that_is_nested_too_deep_stays_text(page, formula):
    page.goto(f"/trajectory/{identifier(3)}")
    typeset(page, ".problem", f"So ${formula}$, and $x^2$.")
    problem = page.locator(".problem")
    playwright.expect(problem).to_contain_text(f"So ${formula}$, and ")
    playwright.expect(problem.locator(".katex")).to_have_count(1)


@pytest.mark.parametrize("width", SCREENS)
@pytest.mark.parametrize("place", [".problem", "td.text"])
def test_a_display_formula_stands_on_one_line_and_scrolls_within_its_place(page, width, place):
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"/trajectory/{identifier(3)}?types=mc")
    for formula, is_wide in ((r"15 \text{ roses} \times \ldots", False), (r"15 \text{ roses} \times" * 40 + "1", True)):
        typeset(page, place, rf"So \[ {formula} \] of them.")
        shown = page.locator(f"{place} .katex-display")
        height, seen, whole = shown.evaluate("node => [node.clientHeight, node.clientWidth, node.scrollWidth]")
        assert 10 < height < 50, "of a line or two"
        assert seen < width and (whole > seen) == is_wide


def test_a_verdict_is_kept_and_shown_without_leaving_the_step(page, address):
    page.goto(f"/trajectory/{identifier(3)}?types=mc&step=1")
    page.locator("tr.chosen button[value=wrong]").click()
    playwright.expect(page.locator("tr.chosen button[value=wrong]")).to_have_attribute("aria-pressed", "true")
    playwright.expect(page.locator("tr.chosen")).to_contain_text("wrong")
    playwright.expect(page).to_have_url(f"{address}/trajectory/{identifier(3)}?types=mc&step=1")
    page.reload()
    playwright.expect(page.locator("[aria-pressed=true]")).to_have_count(1)


def say_name(page, name: str) -> None:
    page.goto("/queue")
    page.locator("summary", has_text="has judged").click() if page.locator("#asked").count() else None
    page.locator("#annotator").fill(name)
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#judged")).to_have_text("0")


TWICE = """key => [1, 2].forEach(() =>
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true})))"""


def judge(page, count: int, key_of, judged: int = 0) -> dict[int, str]:
    """Judge the next solutions of the queue by keys alone; the key that was pressed at each."""
    pressed = {}
    for place in range(count):
        number = int((page.locator("#asked").get_attribute("data-solution") or "").removeprefix("t"))
        key = pressed[number] = key_of(number)
        if place % 10:
            page.keyboard.press(key)
        else:  # twice at once: the second is of no effect, or it would judge the next solution
            page.evaluate(TWICE, key)
        playwright.expect(page.locator("#judged")).to_have_text(str(judged + place + 1))
    return pressed


def verdicts(pressed: dict[int, str]) -> dict[tuple[int, int], bool]:
    """Whether each step that is not a last one is right, as a key says it."""
    return {
        (number, step): key == "a" or step < int(key)
        for number, key in pressed.items()
        for step in range(2)
        if key == "a" or step <= int(key)
    }


def test_judged_solutions_give_the_figures_that_one_computes_by_hand(page, labels):
    labels.unlink(missing_ok=True)

    def first_wrong(number: int) -> str:
        return "a" if number % 4 == 0 else str(number % 3)

    say_name(page, "ann")
    page.keyboard.press(" ")
    playwright.expect(page.locator("form.whole a")).to_have_attribute("href", "/queue?place=2")
    pressed = judge(page, 50, first_wrong)
    last = page.locator("#asked").get_attribute("data-solution")
    page.keyboard.press("u")
    playwright.expect(page.locator("#judged")).to_have_text("49")
    assert page.locator("#asked").get_attribute("data-solution") != last
    assert judge(page, 1, first_wrong, judged=49).items() <= pressed.items()
    page.locator("header a", has_text="Your figures").click()
    heading(page, "What your judgements say")
    # by hand: rewards are step / 4
    said = verdicts(pressed)
    right, wrong = ([step / 4 for (_, step), word in said.items() if word == kind] for kind in (True, False))
    pairs = [(one > other) + (one == other) / 2 for one in right for other in wrong]
    row = page.locator("#aucs tbody tr").first.locator("td")
    playwright.expect(row.nth(1)).to_contain_text(f"{sum(pairs) / len(pairs):.3f} [")
    playwright.expect(row.nth(2)).to_have_text(str(len(said)))


@pytest.mark.parametrize("width", SCREENS)
def test_the_solution_and_its_buttons_are_on_the_screen_whatever_the_length_of_the_problem(page, labels, width):
    labels.unlink(missing_ok=True)
    page.set_viewport_size({"width": width, "height": 900})
    say_name(page, "ann")
    for judged in range(3):
        for part in ("#asked", "button[value='2']", "button[value=none]"):
            playwright.expect(page.locator(part)).to_be_in_viewport(ratio=1)
        judge(page, 1, lambda number: "a", judged)
    # again and again: the page scrolls to the solution once it is loaded
    page.wait_for_function("() => scrollTo(0, 0) || asked.getBoundingClientRect().top >= innerHeight")
    playwright.expect(page.locator("button[value=none]")).to_be_in_viewport(ratio=1)


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
