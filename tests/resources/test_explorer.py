"""The pages of the label explorer."""

import json
import re
from collections import Counter
from html import unescape
from urllib.parse import quote

import polars as pl
import pytest
from explorer_home import HOSTILE, STEPS, identifier, made_up_home
from starlette.testclient import TestClient

from cpmi_dagster.contracts.tables import StepTruth
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.reports.html import EXPLORER as OWN
from cpmi_dagster.resources.explorer.app import explorer
from cpmi_dagster.resources.explorer.results import LatestResults
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.parquet import Record
from cpmi_dagster.resources.lake.query import query
from cpmi_dagster.trajectories.question_key import text_hash
from cpmi_dagster.trajectories.rows import AS_IT_IS
from cpmi_dagster.trajectories.step_truth import read_judgements
from tests.resources.test_database import put

FROM_HERE = {"Origin": OWN}
OTHER_HOSTS = ("evil.example", "127.0.0.1.evil.example", "169.254.0.1", "")
OTHER_ORIGINS = ("https://evil.example", "null", "http://localhost", "https://127.0.0.1", "http://127.0.0.1.evil.com")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return made_up_home(tmp_path_factory.mktemp("explorer"))


@pytest.fixture(scope="module")
def app(settings):
    return explorer(settings)


@pytest.fixture
def client(app, labels) -> TestClient:
    return TestClient(app, base_url=OWN)


@pytest.fixture
def labels(settings):
    yield (path := settings.home / "own_labels.jsonl")
    path.unlink(missing_ok=True)


def page(client: TestClient, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


def listed(text: str) -> list[str]:
    return re.findall(r"<code>(t\d{9})</code>", text)


def judge(client: TestClient, number: int, step: object, verdict: str, **headers: str):
    data = {"step": step, "verdict": verdict}
    return client.post(f"/verdict/{identifier(number)}?types=cpmi", data=data, headers={**FROM_HERE, **headers})


def judge_solution(client: TestClient, number: int, first_wrong: object):
    data = {"first_wrong": first_wrong, "place": 0}
    return client.post(f"/first-wrong/{identifier(number)}", data=data, headers=FROM_HERE)


def as_annotator(client: TestClient, name: str) -> TestClient:
    assert client.post("/annotator", data={"annotator": name}, headers=FROM_HERE).url.path == "/queue"
    return client


def asked(text: str) -> int:
    """The trajectory that a page of the queue asks about."""
    [number] = re.findall(r'data-solution="t(\d+)"', text)
    return int(number)


def judge_queue(client: TestClient, count: int) -> list[int]:
    """Judge the next solutions of the queue: step 1 is the first wrong one."""
    solutions, text = [], page(client, "/queue")
    for _ in range(count):
        solutions.append(asked(text))
        text = judge_solution(client, solutions[-1], 1).text
    return solutions


def test_the_list_is_paged_and_searched_in_questions_and_for_ids(client):
    ids, path = [], "/"
    while path:
        ids += listed(text := page(client, path))
        following = re.search(r'rel="next" href="([^"]+)"', text)
        path = unescape(following[1]) if following else ""
    assert ids == [identifier(number) for number in range(100)]
    searches = {"question 42:": [42], identifier(13): [13], "mine-5": [5], "%": [], "alert('x')": [7]}
    for search, numbers in searches.items():
        assert listed(page(client, f"/?search={quote(search)}")) == [identifier(number) for number in numbers]
    assert identifier(5) in page(client, "/trajectory/mine-5")


def test_a_solution_shows_where_the_first_error_is_as_a_bar_for_each_step(client):
    text = page(client, f"/trajectory/{identifier(3)}")
    bars = re.findall(r'(\d+)%<meter min="0" max="1" value="([\d.]+)"', text)
    assert bars == [("100", "1.000"), ("75", "0.750"), ("50", "0.500")], "1 - step / 4"


def test_hostile_text_is_shown_and_never_run(client):
    as_annotator(client, "<script>alert {{ 7 * 7 }}")
    for path in ("/", f"/trajectory/{quote(HOSTILE, safe='')}", "/disagreement?search=alert", "/queue"):
        answer = client.get(path)
        assert "<script>alert" not in answer.text and "<b>own" not in answer.text
        assert "&lt;script&gt;alert" in answer.text and "{{ 7 * 7 }}" in answer.text
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


def test_a_bad_address_is_answered_with_a_sentence(client):
    bad = {
        f"/trajectory/{identifier(3)}?step=3": "no step 3",
        "/trajectory/' or 1=1 --": "no labelled trajectory",
        "/static/%2e%2e/app.py": "Not Found",
    }
    for path, words in bad.items():
        assert words in (answer := client.get(path)).text and answer.status_code in (400, 404), path


def test_the_steps_that_differ_most_come_first(client):
    for task, numbers in {"": [90, 0, 1], "&task=MATH": [90, 0, 10]}.items():
        ids = listed(page(client, f"/disagreement?types=cpmi&types=mc{task}"))
        assert list(dict.fromkeys(ids))[:3] == [identifier(number) for number in numbers]


def test_the_sql_that_a_view_shows_can_be_run(client, settings):
    for path in ("/?search=eggs", f"/trajectory/{identifier(7)}?step=1", "/disagreement", "/queue"):
        statements = re.findall(r"<pre>(.*?)</pre>", page(client, path), re.DOTALL)
        assert statements and all(query(settings, unescape(sql)) for sql in statements)


def test_pages_are_for_this_machine_alone_and_labels_change_by_posts_of_own_pages(client, labels):
    others = [*(("Host", host, 400) for host in OTHER_HOSTS), *(("Origin", origin, 403) for origin in OTHER_ORIGINS)]
    for name, value, status in others:
        assert client.get("/", headers={name: value}).status_code == status
        assert judge(client, 3, 1, "wrong", **{name: value}).status_code == status
    assert client.get(f"/verdict/{identifier(3)}?step=1&verdict=wrong").status_code == 405
    assert client.post(f"/verdict/{identifier(3)}", data={"step": 1, "verdict": "wrong"}).status_code == 403
    for step, verdict in ((3, "wrong"), ("x", "wrong"), (1, "maybe"), ("1" * 3000, "wrong")):
        assert judge(client, 3, step, verdict).status_code in (400, 404)
    assert not labels.exists()


def test_every_annotator_gets_the_same_queue_which_has_its_share_of_every_stratum(client, settings, tmp_path):
    solutions = judge_queue(as_annotator(client, "ann"), 50)
    other = TestClient(explorer(settings, tmp_path / "other.jsonl"), base_url=OWN)
    assert judge_queue(as_annotator(other, "Böb"), 10) == solutions[:10]
    drawn = Counter(number % 10 == 0 for number in set(solutions))
    assert abs(drawn[True] - 5) < 2 and drawn.total() == 50


def test_the_queue_asks_for_the_first_wrong_step_of_whom_it_knows_and_shows_no_label(client, labels):
    assert 'name="annotator"' in page(client, "/queue") and "data-step" not in page(client, "/queue")
    assert client.post("/annotator", data={"annotator": "a\u2028b"}, headers=FROM_HERE).status_code == 400
    text = page(as_annotator(client, "ann"), "/queue")
    shown = unescape(text[text.index("<main") : text.index("SQL of this view")])
    assert f"Question {asked(text)}: how many eggs?" in shown and "There are" in shown and "The answer is" in shown
    assert not re.search("cpmi|shade-|gold|truth|0\\.9|>4<", shown)
    for first_wrong, said in ((1, {"0": True, "1": False}), ("none", {"0": True, "1": True, "2": True})):
        judge_solution(client, 3, first_wrong)
        assert json.loads(labels.read_text())["by"] == {"ann": said}
    assert 'ann has judged <span id="judged">1</span> of 50 solutions' in page(client, "/queue")
    assert judge_solution(client, 3, STEPS).status_code == 404 and judge_solution(client, 3, "x").status_code == 400
    judge_solution(client, 3, "clear")
    assert labels.read_text() == ""


def test_the_word_of_most_annotators_is_the_truth_and_a_split_is_none(client, labels):
    for name, verdicts in {"ann": "rr", "bob": "rw", "cem": "w"}.items():
        for step, verdict in enumerate(verdicts):
            judge(as_annotator(client, name), 3, step, {"r": "right", "w": "wrong"}[verdict])
    row = json.loads(labels.read_text())
    assert row["by"] == {"ann": {"0": True, "1": True}, "bob": {"0": True, "1": False}, "cem": {"0": False}}
    assert (row["rewards"], row["judged"]) == ([1.0, 0.9, 0.9], [0])
    assert [each.correct for each in read_judgements([(row, AS_IT_IS)]).judged] == [[True, None, None]]
    assert page(client, "/own-labels.jsonl") == labels.read_text()
    table = pl.read_csv(client.get("/own-labels.csv").content)
    assert table["annotator"].to_list() == ["ann", "ann", "bob", "bob", "cem"]
    assert table.filter(annotator="bob", right=False)["step"].to_list() == ["So $2 \\cdot 3$ of them."]


def test_a_judgement_of_a_text_that_stands_elsewhere_by_now_is_not_shown_counted_or_added_to(client, labels):
    as_annotator(client, "ann")
    judge(client, 3, 1, "wrong")
    [kept] = labels.read_text().splitlines()
    row, text = json.loads(kept), "Question 3: how many eggs?"
    steps = ["There are 3 + 1 eggs.", "So $2 \\cdot 3$ of them.", "The answer is: 4"]
    assert row["text_hash"] == text_hash(text, steps)
    assert "aria-pressed" in page(client, f"/trajectory/{identifier(3)}")
    labels.write_text(json.dumps({**row, "text_hash": text_hash(text, steps[:2])}) + "\n")
    assert "0 judged solutions" in re.sub("<[^>]*>", "", page(client, "/own-figures"))
    assert "aria-pressed" not in page(client, f"/trajectory/{identifier(3)}")
    assert pl.read_csv(client.get("/own-labels.csv").content).is_empty()
    refused = judge(client, 3, 0, "right")
    assert "has a judgement of another solution as t000000003" in refused.text and refused.status_code >= 400


def test_your_figures_count_what_the_step_truth_of_the_profile_judges(tmp_path):
    settings = made_up_home(tmp_path)
    correct = [[True, number % 2 == 0, None] for number in range(30)]
    truth = pl.DataFrame({"row_number": range(30), "correct": correct, "kind": None, "operations_left": None})
    Lake(tmp_path).write(StepTruth.cast(truth), Record("sources/step_truth", None, "key", "run", "model", "1"))
    client = as_annotator(TestClient(explorer(settings), base_url=OWN), "ann")
    shown = re.sub("<[^>]*>", "", page(client, "/own-figures"))
    assert "30 judged solutions (30 in sources.step_truth), 15 with a wrong step" in shown
    assert "60 judged steps: 45 right, 15 wrong" in shown and "Judge 20 more, 50 in all" in shown
    assert re.search(r"cpmi\s*0\.\d+ \[.*?\]\s*60", shown), "the AUC is that of these steps"
    judge_solution(client, 0, 0)  # the file says right of both of its steps
    judge_solution(client, 90, 1)
    shown = re.sub("<[^>]*>", "", page(client, "/own-figures"))
    assert "31 judged solutions (30 in sources.step_truth), 17 with a wrong step" in shown


@pytest.mark.parametrize("judged", [98, 100])
def test_the_queue_leaves_out_what_the_step_truth_judges_unless_it_judges_all(tmp_path, judged):
    settings = made_up_home(tmp_path)
    correct = [[True, True, True]] * judged
    truth = pl.DataFrame({"row_number": range(judged), "correct": correct, "kind": None, "operations_left": None})
    Lake(tmp_path).write(StepTruth.cast(truth), Record("sources/step_truth", None, "key", "run", "model", "1"))
    client = as_annotator(TestClient(explorer(settings), base_url=OWN), "ann")
    if judged == 100:
        assert "of 50 solutions" in page(client, "/queue")
        return
    assert set(judge_queue(client, 2)) == {98, 99}
    ended = page(client, "/queue")
    assert "You have judged every solution of it" in ended and '<span id="judged">2</span> solutions<' in ended


def test_trajectories_show_without_a_refresh_once_they_are_selected(tmp_path):
    settings = load_settings("miniature", tmp_path)
    lake, latest = Lake.of(settings), LatestResults(settings)
    put(lake, "alignment/trajectories", "000", task="MATH")
    assert latest.get().tasks == []
    put(lake, "selection/selected_trajectories", "000")
    assert latest.get().tasks == ["MATH"] and latest.get() is latest.get()
