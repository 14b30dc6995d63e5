"""The pages of the label explorer."""

import json
import re
from collections import Counter
from html import unescape
from inspect import signature
from urllib.parse import quote

import polars as pl
import pytest
from explorer_home import HOSTILE, STEPS, identifier, made_up_home, soft_label
from sklearn.metrics import cohen_kappa_score
from starlette.testclient import TestClient

from cpmi_dagster.cli.results import explore
from cpmi_dagster.errors import SourceError
from cpmi_dagster.reports.html import EXPLORER, suspicious_table
from cpmi_dagster.reports.inputs import ReportInputs
from cpmi_dagster.reports.labels import measure_label_quality
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.query import query
from cpmi_dagster.resources.web.explorer.app import explorer, serve_explorer
from cpmi_dagster.trajectories.own_labels import own_rewards, read_step_labels
from cpmi_dagster.trajectories.step_truth import read_step_truth

OWN = "http://127.0.0.1:3100"


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """A small home of made-up labels."""
    return made_up_home(tmp_path_factory.mktemp("explorer"))


@pytest.fixture
def labels(tmp_path):
    """The file of the reader's labels."""
    return tmp_path / "own_labels.jsonl"


@pytest.fixture
def client(settings, labels) -> TestClient:
    """A reader on this machine."""
    return TestClient(explorer(settings, labels), base_url=OWN)


def page(client: TestClient, path: str, status: int = 200) -> str:
    """The text of a page."""
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


def test_the_reports_links_to_steps_open_here(client):
    steps = pl.DataFrame(
        {"trajectory_id": [identifier(1)], "step_index": [1], "question": ["q"], "step": ["s"], "cpmi": [0.0]}
    )
    (_, [[where, *_]]) = suspicious_table(steps)
    assert f":{signature(explore).parameters['port'].default}" in EXPLORER == OWN
    assert identifier(1) in page(client, where.link.removeprefix(EXPLORER))


def listed(text: str) -> list[str]:
    return re.findall(r"<code>(t\d{9})</code>", text)


def judged(client: TestClient, number: int, step: object, verdict: str, **headers: str):
    path = f"/verdict/{identifier(number)}?types=cpmi"
    return client.post(
        path, data={"step": step, "verdict": verdict}, headers={"Origin": OWN, **headers}, follow_redirects=False
    )


def test_pages_of_the_list_hold_every_trajectory_once(client):
    seen, path = [], "/"
    while path:
        text = page(client, path)
        seen += listed(text)
        following = re.search(r'rel="next" href="([^"]+)"', text)
        path = unescape(following[1]) if following else ""
    assert seen == [identifier(number) for number in range(100)]


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("question 42:", [42]),
        (identifier(13), [13]),
        ("mine-5", [5]),
        ("no such thing", []),
        ("%", []),
        ("alert('x')", [7]),
    ],
)
def test_a_search_looks_in_questions_and_for_ids(client, search, found):
    assert listed(page(client, f"/?search={quote(search)}")) == [identifier(number) for number in found]


def test_a_search_and_a_task_go_together(client):
    assert listed(page(client, "/?search=question+2&task=MATH")) == [identifier(20)]


def test_a_trajectory_leads_to_its_neighbours_among_what_was_searched_for(client):
    text = unescape(page(client, f"/trajectory/{identifier(20)}?search=question&task=MATH"))
    assert f'id="previous" href="/trajectory/{identifier(10)}?search=question&task=MATH' in text
    assert f'id="next" href="/trajectory/{identifier(30)}?search=question&task=MATH' in text


def test_a_trajectory_is_found_by_the_users_own_id(client):
    assert identifier(5) in page(client, "/trajectory/mine-5")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        f"/trajectory/{identifier(5)}",
        "/disagreement/figures?first=cpmi&second=mc&operation=none",
        "/distributions/figures?types=mc",
        "/own-labels",
    ],
)
def test_a_trajectory_is_named_by_the_users_own_id_where_it_has_one(client, path):
    judged(client, 5, 1, "wrong")
    text = page(client, path)
    links = re.findall(r'href="/trajectory/t0*(\d+)[^"]*">(?:<code>)?mine-(\d+)\b', text)
    assert all(number == own for number, own in links) and ("mine-5 <small>" in text or len(links) > 1)
    assert '"><code>t' not in text


def test_the_task_is_shown_where_there_are_several(tmp_path):
    client = TestClient(explorer(made_up_home(tmp_path)), base_url=OWN)
    assert "<th>task</th>" in (text := page(client, "/")) and 'name="task"' in text
    lake, key = Lake(tmp_path), "selection/selected_trajectories"
    for shard in ("000", "001"):
        record = lake.record(key, shard)
        assert record
        lake.write(lake.read(key, shard).with_columns(task=pl.lit("OWN")), record)
    assert "task" not in page(client, "/").split("SQL of this view")[0]


def test_a_step_shows_rewards_soft_labels_log_probabilities_and_rollouts(client):
    text = page(client, f"/trajectory/{identifier(3)}?types=cpmi&step=1")
    assert "+0.250<small>0.90</small>" in text and "shade-9" in text
    assert "−1.00 → −0.25" in text and "+0.750" in text
    assert "policy: 0 of 2 reach the gold answer" in text


def test_alike_rollouts_are_shown_once_with_their_number(client):
    text = page(client, f"/trajectory/{identifier(3)}?types=cpmi&step=1")
    assert text.count("Sampled: ") == 1 and "11 tokens, 2 times" in text


@pytest.mark.parametrize(
    "path", ["/", f"/trajectory/{identifier(7)}", "/disagreement/figures", "/distributions/figures", "/own-figures"]
)
def test_hostile_text_is_shown_and_never_run(client, path):
    text = page(client, path)
    assert "<script>alert" not in text and "<b>own" not in text
    shown = text.count("quoted")
    assert unescape(text).count("{{ 7 * 7 }}") == shown
    assert shown or "figures" in path


def test_a_hostile_id_leads_to_its_trajectory_and_to_no_file(client):
    assert identifier(7) in page(client, f"/trajectory/{quote(HOSTILE, safe='')}")
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/static/%2e%2e/app.py").status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/?types=nothing", 400, "there is no `nothing`; choose from mc, cpmi"),
        ("/?task=nothing", 400, "there is no `nothing`"),
        (f"/?search={'x' * 301}", 400, "at most 300"),
        ("/?search=%00", 400, "printable"),
        (f"/trajectory/{identifier(3)}?step=-1", 400, "whole number"),
        (f"/trajectory/{identifier(3)}?step=3", 404, "no step 3"),
        (f"/trajectory/{identifier(3)}?conditioning=prefix", 400, "choose from marginal"),
        ("/trajectory/' or 1=1 --", 404, "no labelled trajectory"),
        ("/disagreement/figures?first=nothing", 400, "there is no `nothing`"),
        ("/disagreement/figures?position=1;drop", 400, "whole number"),
        ("/own-labels.jsonl?base=nothing", 400, "there is no `nothing`"),
        ("/own-labels/nothing.json", 400, "choose from argilla, label-studio"),
        ("/queue?place=x", 400, "whole number"),
        ("/nowhere", 404, "Not Found"),
    ],
)
def test_a_bad_address_is_answered_with_a_sentence(client, path, status, words):
    assert words in page(client, path, status)


def test_disagreement_is_counted_by_task_position_and_operation(client):
    text = page(client, "/disagreement/figures?first=cpmi&second=mc")
    assert listed(text)[0] == identifier(90)
    tables = dict(re.findall(r"<h2>By (\w+)</h2>(.*?)</table>", text, re.DOTALL))
    assert "GSM8K" in tables["task"] and ">2</a>" in tables["position"] and ">+</a>" in tables["operation"]
    assert ">*</a>" in tables["operation"] and ">none</a>" in tables["operation"]
    narrowed = page(client, "/disagreement/figures?first=cpmi&second=mc&operation=%2B&task=MATH")
    assert set(listed(narrowed)) == {identifier(number) for number in range(0, 100, 10)}


def test_distributions_count_every_step(client):
    text = page(client, "/distributions/figures?types=mc")
    held = [int(count) for count in re.findall(r"<title>(\d+) steps", text)]
    assert held == [100, 100, 100] and "+0.250" in text


def test_distributions_lead_to_the_steps_with_the_lowest_and_highest_rewards(client, settings):
    text = unescape(page(client, "/distributions/figures?types=mc"))
    ends = re.findall(r"(lowest|highest): (.*?)</p>", text, re.DOTALL)
    assert [word for word, _ in ends] == ["lowest", "highest"]
    rewards = query(settings, "from labels.step_rewards where reward_type = 'mc'").rows
    for (_, links), bound in zip(ends, (rewards["reward"].min(), rewards["reward"].max()), strict=True):
        found = re.findall(r"/trajectory/(t\d+)\?types=mc&step=(\d+)", links)
        assert len(found) == 5
        first = rewards.filter(trajectory_id=found[0][0], step_index=int(found[0][1]))
        assert first["reward"].item() == bound


@pytest.mark.parametrize(
    "path",
    [
        "/?search=eggs",
        f"/trajectory/{identifier(7)}?step=1",
        "/disagreement/figures",
        "/distributions/figures",
        "/queue",
    ],
)
def test_the_sql_that_a_view_shows_can_be_run(client, settings, path):
    shown = re.findall(r"<pre>(.*?)</pre>", page(client, path), re.DOTALL)
    assert shown
    for sql in shown:
        query(settings, unescape(sql))


OTHER_HOSTS = ("evil.example", "evil.example:3000", "127.0.0.1.evil.example", "169.254.0.1", "")
OTHER_ORIGINS = (
    "https://evil.example",
    "null",
    "http://localhost",
    "https://127.0.0.1",
    "http://127.0.0.1.evil.example",
)


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [*(("Host", host, 400) for host in OTHER_HOSTS), *(("Origin", origin, 403) for origin in OTHER_ORIGINS)],
)
def test_requests_of_other_sites_are_refused(client, labels, header, value, status):
    assert client.get("/", headers={header: value}).status_code == status
    assert judged(client, 3, 1, "wrong", **{header: value}).status_code == status
    assert not labels.exists()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:3000"])
def test_this_machine_is_known_by_its_own_names(client, host):
    assert client.get("/", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200


def test_labels_change_by_posts_from_own_pages_only(client, labels):
    path = f"/verdict/{identifier(3)}"
    assert client.get(f"{path}?step=1&verdict=wrong").status_code == 405
    assert client.post(path, data={"step": 1, "verdict": "wrong"}).status_code == 403
    assert not labels.exists()


def test_a_page_loads_nothing_from_elsewhere(client):
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    for path in ("/", f"/trajectory/{identifier(3)}"):
        for place in re.findall(r'(?:src|href|action)="([^"]*)"', page(client, path)):
            assert place.startswith("/") and not place.startswith("//")


def test_a_verdict_is_kept_in_the_form_that_step_labels_are_read_in(client, labels):
    answer = judged(client, 3, 1, "wrong")
    assert answer.status_code == 303 and answer.headers["location"].endswith("?types=cpmi&step=1")
    judged(client, 4, 0, "right")
    rows = [json.loads(line) for line in labels.read_text().splitlines()]
    read = read_step_labels("mine", rows, probabilities=True)
    assert read.filter(trajectory_id=identifier(3))["reward"].to_list() == [0.9, 0.0, 0.9]
    assert read.filter(trajectory_id=identifier(4))["reward"].to_list() == [1.0, 0.9, 0.9]
    assert 'value="wrong" aria-pressed="true"' in page(client, f"/trajectory/{identifier(3)}")
    assert listed(page(client, "/own-labels")) == [identifier(3), identifier(4)]


def test_a_verdict_can_be_changed_and_taken_back(client, labels):
    for verdict in ("wrong", "right"):
        judged(client, 3, 1, verdict)
    (row,) = map(json.loads, labels.read_text().splitlines())
    assert row["rewards"] == [0.9, 1.0, 0.9] and row["judged"] == [1]
    judged(client, 3, 1, "clear")
    assert labels.read_text() == ""


@pytest.mark.parametrize(
    ("step", "verdict", "status"),
    [(3, "wrong", 404), ("x", "wrong", 400), (1, "maybe", 400), ("1" * 3000, "wrong", 400)],
)
def test_a_bad_verdict_changes_nothing(client, labels, step, verdict, status):
    assert judged(client, 3, step, verdict).status_code == status
    assert not labels.exists()


def test_the_whole_file_labels_every_selected_trajectory(client, settings):
    judged(client, 3, 1, "wrong")
    rows = [json.loads(line) for line in page(client, "/own-labels.jsonl?base=mc").splitlines()]
    rewards = own_rewards(
        read_step_labels("mine", rows, probabilities=True), Lake.of(settings).read("alignment/trajectories")
    )
    assert rewards.height == 100 * STEPS
    assert rewards.filter(trajectory_id=identifier(3))["reward"].to_list() == [0.8, 0.0, 0.8]
    assert rewards.filter(trajectory_id=identifier(90))["reward"].to_list() == [
        soft_label(90, step, "mc") for step in range(STEPS)
    ]


def as_annotator(client: TestClient, name: str) -> TestClient:
    answer = client.post("/annotator", data={"annotator": name}, headers={"Origin": OWN}, follow_redirects=False)
    assert answer.headers["location"] == "/queue", answer.text
    return client


def asked(text: str) -> tuple[int, int, int]:
    """Trajectory and step that a page of the queue asks about, and its place in the queue."""
    found = re.search(r'data-step="t(\d+)-(\d+)"', text), re.search(r'name="place" value="(\d+)"', text)
    assert found[0] and found[1], text
    return int(found[0][1]), int(found[0][2]), int(found[1][1])


def judge_queue(client: TestClient, count: int, is_right) -> list[tuple[int, int, int]]:
    """Judge the next steps of the queue; they are returned."""
    steps, path = [], "/queue"
    for _ in range(count):
        step = asked(page(client, path))
        data = {"step": step[1], "place": step[2], "verdict": "right" if is_right(*step[:2]) else "wrong"}
        answer = client.post(
            f"/verdict/{identifier(step[0])}", data=data, headers={"Origin": OWN}, follow_redirects=False
        )
        path = answer.headers["location"]
        steps.append(step)
    return steps


def is_right(number: int, step: int) -> bool:
    """A judgement that goes with the reward, which is `step / 4`, but for every fifth trajectory."""
    return (step > 0) != (number % 5 == 0)


def test_every_annotator_gets_the_same_queue_which_has_its_share_of_every_stratum(client, settings, labels, tmp_path):
    steps = judge_queue(as_annotator(client, "ann"), 50, is_right)
    other = TestClient(explorer(settings, tmp_path / "other.jsonl"), base_url=OWN)
    assert judge_queue(as_annotator(other, "Böb"), 20, is_right) == steps[:20]
    assert len(set(steps)) == 50
    drawn = Counter((number % 10 == 0, step) for number, step, _ in steps)
    for of_math, size in ((False, 90), (True, 10)):
        for step in range(STEPS):
            assert abs(drawn[of_math, step] - size * 50 / 300) < 2


def test_the_queue_asks_who_judges_and_shows_no_label(client):
    assert 'name="annotator"' in page(client, "/queue") and "data-step" not in page(client, "/queue")
    text = page(as_annotator(client, "ann"), "/queue")
    number, step, _ = asked(text)
    shown = unescape(text[: text.index("SQL of this view")])
    assert f"Question {number}: how many eggs?" in shown
    assert ("There are" in shown, "So $" in shown, "The answer is" in shown) == (True, step > 0, step > 1)
    assert not re.search("cpmi|shade-|gold|truth|0\\.9|>4<", shown)


def test_a_judgement_can_be_undone_and_a_step_skipped(client, labels):
    (first, second) = judge_queue(as_annotator(client, "ann"), 2, is_right)
    text = page(client, "/queue?place=2")
    assert asked(text)[2] == 2 and asked(page(client, "/queue?place=3"))[2] == 3
    for step, left in ((second, 1), (first, 0)):
        fields = r'action="/verdict/(\w+)"><input[^>]*name="step" value="(\d)"><input[^>]*name="place" value="(\d+)">'
        form = re.search(f'{fields}<button name="verdict" value="clear"', text)
        assert form and form.groups() == (identifier(step[0]), str(step[1]), str(step[2]))
        data = {"step": form[2], "place": form[3], "verdict": "clear"}
        text = client.post(f"/verdict/{form[1]}", data=data, headers={"Origin": OWN}).text
        assert asked(text) == step and len(labels.read_text().splitlines()) == left
    assert "undo the last" not in text


@pytest.mark.parametrize("name", ["", "x" * 41, "a\u2028b"])
def test_a_bad_name_is_refused(client, name):
    answer = client.post("/annotator", data={"annotator": name}, headers={"Origin": OWN})
    assert answer.status_code == 400 and "annotator" in answer.text and not client.cookies


def test_the_end_of_the_queue_leads_to_what_was_skipped(client):
    as_annotator(client, "ann")
    assert "You have skipped 300 steps" in page(client, "/queue?place=300")


def test_the_word_of_most_annotators_is_the_truth_and_a_split_is_none(client, labels):
    for name, verdicts in {"ann": "rr", "bob": "rw", "cem": "w"}.items():
        as_annotator(client, name)
        for step, verdict in enumerate(verdicts):
            judged(client, 3, step, {"r": "right", "w": "wrong"}[verdict])
    (row,) = map(json.loads, labels.read_text().splitlines())
    assert row["by"] == {
        "ann": {"0": True, "1": True}, "bob": {"0": True, "1": False}, "cem": {"0": False},
    }  # fmt: skip
    assert (row["rewards"], row["judged"]) == ([1.0, 0.9, 0.9], [0])
    assert read_step_truth([row])[0]["correct"].to_list() == [[True, None, None]]
    assert 'value="wrong" aria-pressed="true"' in page(client, f"/trajectory/{identifier(3)}")
    assert "step 0 right, step 1 split" in page(client, "/own-labels")


def test_a_file_without_annotators_is_read_as_of_one_without_a_name(client, labels):
    labels.write_text(
        json.dumps({**json.loads(OWN_LABEL % b"0.9, 0.0, 0.9"), "trajectory_id": identifier(3), "judged": [1]})
    )
    assert 'value="wrong" aria-pressed="true"' in page(client, f"/trajectory/{identifier(3)}")
    judged(as_annotator(client, "ann"), 3, 1, "right")
    assert json.loads(labels.read_text())["by"] == {"unnamed": {"1": False}, "ann": {"1": True}}


def cells(text: str, table: str) -> list[list[str]]:
    """The rows of a table of a page, without its head."""
    found = re.search(f'id="{table}".*?</table>', text, re.DOTALL)
    assert found, text
    return [re.findall("<td[^>]*>(.*?)</td>", row) for row in found[0].split("<tr>")[2:]]


def test_the_figures_are_those_of_the_report_with_the_file_as_step_truth(client, settings, labels):
    judge_queue(as_annotator(client, "ann"), 40, is_right)
    judge_queue(as_annotator(client, "bob"), 30, lambda number, step: is_right(number, step) or number % 7 == 0)
    judged(client, 3, 0, "right")
    text = page(client, "/own-figures")
    truth, _ = read_step_truth(json.loads(line) for line in labels.read_text().splitlines())
    frames = {key: Lake.of(settings).read(key) for key in ("labels/step_rewards", "alignment/trajectories")}
    inputs = ReportInputs(
        {**frames, "sources/step_truth": truth},
        bootstrap_samples=settings.benchmarks.bootstrap_samples, seed=settings.seed,
    )  # fmt: skip
    (mc,) = measure_label_quality(inputs).filter(row="MC", column="Label AUC").to_dicts()
    shown_auc, steps = cells(text, "aucs")[0][1:3]
    assert shown_auc == f"{mc['measured']:.3f} [{mc['low']:.3f}, {mc['high']:.3f}; n={mc['units']}]"
    assert int(steps) == mc["n"]
    rows = [json.loads(line) for line in labels.read_text().splitlines()]
    pairs = [
        (said["ann"][step], said["bob"][step])
        for said in (row["by"] for row in rows) if len(said) == 2
        for step in said["ann"].keys() & said["bob"].keys()
    ]  # fmt: skip
    (agreement,) = cells(text, "agreement")
    assert agreement[:2] == ["ann, bob", str(len(pairs))] and len(pairs) >= 30
    assert agreement[2].startswith(f"{sum(one == other for one, other in pairs) / len(pairs):.3f} [")
    assert agreement[3].startswith(f"{cohen_kappa_score(*zip(*pairs, strict=True)):.3f} [")


@pytest.mark.parametrize(("count", "words"), [(0, "at least one step judged right"), (12, "at least 10 right and 10")])
def test_few_judgements_are_said_to_be_few(client, count, words):
    judge_queue(as_annotator(client, "ann"), count, is_right)
    assert words in page(client, "/own-figures")


def test_steps_are_exported_in_the_forms_of_annotation_tools(client):
    judged(as_annotator(client, "ann"), 3, 1, "wrong")
    judged(as_annotator(client, "bob"), 3, 1, "right")
    judged(client, 4, 0, "right")
    split, agreed, *more = json.loads(page(client, "/own-labels/argilla.json?more=2"))
    texts = {
        "question": "Question 3: how many eggs?",
        "before": "There are 3 + 1 eggs.",
        "step": "So $2 \\cdot 3$ of them.",
    }
    place = {"trajectory_id": identifier(3), "step_index": 1}
    said = ["ann: wrong", "bob: right"]
    assert split == {"id": f"{identifier(3)}-1", "fields": texts, "metadata": {**place, "annotators": said}}
    assert agreed["suggestions"] == {"verdict": {"value": "right", "score": 1.0, "agent": "majority"}}
    assert all(agreed["fields"].values()), "a required field of Argilla is not empty"
    assert len(more) == 2 and all(each["metadata"]["annotators"] == [] for each in more)
    task, *others = json.loads(page(client, "/own-labels/label-studio.json"))
    assert len(others) == 1 and task["data"] == {**place, **texts}
    assert [annotation["result"] for annotation in task["annotations"]] == [
        [
            {"from_name": "verdict", "to_name": "step", "type": "choices", "value": {"choices": [verdict]}},
            {"from_name": "annotator", "to_name": "step", "type": "textarea", "value": {"text": [name]}},
        ]
        for name, verdict in (("ann", "wrong"), ("bob", "right"))
    ]


def test_steps_without_soft_labels_can_be_judged(tmp_path, labels):
    settings = made_up_home(tmp_path / "pilot", soft=False)
    client = TestClient(explorer(settings, labels), base_url=OWN)
    judge_queue(as_annotator(client, "ann"), 1, is_right)
    (row,) = map(json.loads, labels.read_text().splitlines())
    assert sorted(row["rewards"], key=str) == [
        float(is_right(int(row["trajectory_id"][1:]), row["judged"][0])),
        None,
        None,
    ]


OWN_LABEL = b'{"trajectory_id": "t", "rewards": [%s], "judged": [], "reward_type": "mc"}'


@pytest.mark.parametrize("content", [b"{}", b"\xff\xfe", None, OWN_LABEL % b"NaN", OWN_LABEL % b"1e999"])
def test_a_file_that_holds_no_labels_is_refused_before_anything_is_served(settings, labels, content):
    labels.mkdir() if content is None else labels.write_bytes(content)
    with pytest.raises(SourceError, match=r"own_labels\.jsonl.* give another file with --labels"):
        serve_explorer(settings, 1, labels, lambda: pytest.fail("it is served"))


def test_a_damaged_file_of_labels_is_named_with_its_line(client, labels):
    labels.write_text("{}\n")
    assert "own_labels.jsonl, line 1" in page(client, "/own-labels", 503)


def test_a_home_without_labels_says_which_command_makes_them(tmp_path):
    nothing = TestClient(explorer(made_up_home(tmp_path / "unlabelled", labelled=False)), base_url=OWN)
    assert "cpmi run" in page(nothing, "/")
    assert page(nothing, f"/trajectory/{identifier(3)}")
    assert "needs two" in page(nothing, "/disagreement", 404)


def test_a_home_without_a_database_says_which_command_makes_it(tmp_path, settings):
    nothing = explorer(settings.model_copy(update={"home": tmp_path / "nothing"}))
    assert "cpmi run" in page(TestClient(nothing, base_url=OWN), "/", 503)


def test_what_is_published_later_is_seen_with_the_next_page(tmp_path):
    settings = made_up_home(tmp_path / "growing", labelled=False)
    client = TestClient(explorer(settings), base_url=OWN)
    assert "No labels yet" in page(client, "/")
    made_up_home(tmp_path / "growing")
    assert "No labels yet" not in page(client, "/")


def test_labels_that_are_made_again_without_publishing_are_seen_with_the_next_page(tmp_path):
    home = tmp_path / "again"
    client = TestClient(explorer(made_up_home(home), tmp_path / "own.jsonl"), base_url=OWN)
    path = f"/trajectory/{identifier(4)}?types=cpmi&step=1"
    assert "+0.250<small>0.90</small>" in page(client, path)
    lake = Lake(home)
    for key, partition, column in (
        ("dataset/soft_labels", None, "soft_label"),
        ("labels/step_rewards", "000", "reward"),
    ):
        rows = lake.read(key, partition).with_columns(pl.lit(0.125).alias(column))
        record = lake.record(key, partition)
        assert record
        lake.write(rows, record)
    assert "+0.125<small>0.12</small>" in page(client, path)
    judged(client, 4, 1, "wrong")
    assert json.loads((tmp_path / "own.jsonl").read_text())["rewards"] == [0.125, 0.0, 0.125]


def test_answers_over_the_whole_set_follow_labels_that_are_added(tmp_path):
    client = TestClient(explorer(made_up_home(tmp_path / "later")), base_url=OWN)
    assert "surprisal" not in page(client, "/distributions/figures?types=cpmi")
    lake = Lake(tmp_path / "later")
    rows = lake.read("labels/step_rewards", "001").with_columns(reward_type=pl.lit("surprisal"))
    record = lake.record("labels/step_rewards", "001")
    assert record
    lake.write(rows.unique(["trajectory_id", "step_index"]), record)
    assert "surprisal" in page(client, "/distributions/figures?types=surprisal")


def test_tables_too_large_for_memory_are_read_from_the_lake(settings, tmp_path, monkeypatch):
    monkeypatch.setattr("cpmi_dagster.resources.web.explorer.snapshot.MOST_IN_MEMORY", 0)
    client = TestClient(explorer(settings, tmp_path / "own.jsonl"), base_url=OWN)
    assert listed(page(client, "/?search=question+2&task=MATH")) == [identifier(20)]
    assert "+0.250<small>0.90</small>" in page(client, f"/trajectory/{identifier(3)}?types=cpmi&step=1")
    assert listed(page(client, "/disagreement/figures?first=cpmi&second=mc"))[0] == identifier(90)


def test_every_view_of_a_finished_run_is_answered(finished, tmp_path):
    client = TestClient(explorer(finished, tmp_path / "own.jsonl"), base_url=OWN)
    first = listed(page(client, "/"))[0]
    for path in (f"/trajectory/{first}", "/disagreement/figures", "/distributions/figures"):
        assert "SQL of this view" in page(client, path)
    assert "own.jsonl" in (shown := page(client, "/own-labels"))
    assert shown.count("whole_labels.jsonl") == 2, "on the button, and in the profile"
    headers = client.get("/own-labels.jsonl?base=mc").headers
    assert headers["content-disposition"] == 'attachment; filename="whole_labels.jsonl"'
