"""`cpmi serve-judge`: answers are those of `cpmi judge`, in its own form and in that of vLLM's reward models."""

import asyncio
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import model_validator
from starlette.testclient import TestClient

from cpmi_dagster.prm.judging import Solution
from cpmi_dagster.resources.web import judge_server
from cpmi_dagster.resources.web.judge_server import LONGEST_BODY, Judge, _turns, judge_application

QUESTION, STEPS = "1 + 1?", ["1 + 1 = 3.", "So 3."]
TAGGED = "".join(f"{step}<extra_0>" for step in STEPS)
TURNS = f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n{TAGGED}<|im_end|>"


def by_length(model, solutions, threshold, advance):
    """A judge that knows only how long a step is."""
    assert model == "model"
    return [
        {"id": each.id, **(each.model_extra or {}), "probabilities": [1 / len(step) for step in each.steps]}
        | {"first_error": 0}
        if each.steps
        else {"id": each.id, "probabilities": None, "first_error": None, "reason": "it has no steps"}
        for each in solutions
    ]


PROBABILITIES = [1 / len(step) for step in STEPS]


@pytest.fixture
def client(monkeypatch):
    monkeypatch.setattr(judge_server, "judged_rows", by_length)
    with TestClient(judge_application("model", "cpmi_bce", 0.5), "http://127.0.0.1") as found:
        yield found


def test_one_solution_or_several_are_judged(client):
    one = {"question": QUESTION, "steps": STEPS}
    assert client.post("/judge", json=one).json() == {"id": 0, "probabilities": PROBABILITIES, "first_error": 0}
    several = client.post("/judge", json=[{**one, "id": "a"}, {"id": "b", "question": "?", "steps": []}]).json()
    assert [row["id"] for row in several] == ["a", "b"]
    assert several[1]["reason"] == "it has no steps"


@pytest.mark.parametrize(
    "asked",
    [
        {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": TAGGED}]},
        {
            "input": f"<|im_start|>system\nReason.<|im_end|>\n<|im_start|>user\n{QUESTION}<|im_end|>\n"
            f"<|im_start|>assistant\n{TAGGED}<|im_end|><|endoftext|>"
        },
    ],
)
def test_a_client_of_vllms_reward_models_has_two_figures_a_step(client, asked):
    answer = client.post("/pooling", json={"model": "cpmi_bce", **asked}).json()
    assert answer["model"] == client.get("/v1/models").json()["data"][0]["id"] == "cpmi_bce"
    (found,) = answer["data"]
    assert found["data"] == [pytest.approx([1 - value, value]) for value in PROBABILITIES]


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/judge", b"{", 400, "not JSON"),
        ("/judge", b"[" * 100_000, 400, "not JSON"),
        ("/judge", b'[{"question": "?"}]', 400, "solution 0: `steps`: it is missing"),
        ("/judge", b'["?"]', 400, "solution 0"),
        ("/judge", b'{"question": "?", "steps": ["a"], "id": ' + b"9" * 5_000 + b"}", 400, "not JSON"),
        ("/judge", b'{"question": "?", "steps": ["a"], "score": NaN}', 400, "NaN or an infinite number"),
        (
            "/judge",
            b'[{"question": "?", "steps": []}, {"question": "?", "steps": [], "x": [1e999]}]',
            400,
            "solution 1: a",
        ),
        ("/judge", json.dumps([{"question": "?", "steps": []}] * 1025).encode(), 413, "1,025 solutions; send at most"),
        ("/judge", b"[" + b"0," * 1024 + b"0]", 413, "1,025 solutions; send at most"),
        ("/pooling", json.dumps({"input": [TURNS] * 1025}).encode(), 413, "1,025 solutions; send at most"),
        ("/pooling", json.dumps({"input": [""] * 1025}).encode(), 413, "1,025 solutions; send at most"),
        ("/judge", b" " * (LONGEST_BODY + 1), 413, "longer than 32 MiB"),
        ("/pooling", b'{"input": "1 + 1 = 2"}', 400, "whose steps end with <extra_0>"),
        ("/pooling", b"{}", 400, "give `messages`"),
        ("/pooling", b'{"messages": [{"role": "user"}]}', 400, "it is missing"),
        ("/pooling", b'{"input": [3, 4]}', 400, "`input.0`: it must be text"),
        ("/pooling", json.dumps({"messages": [{"role": "a", "content": ""}] * 10_001}).encode(), 400, "`messages`: it"),
        ("/pooling", json.dumps({"input": TURNS.replace(TAGGED, "<extra_0>" * 10_001)}).encode(), 400, "at most 10000"),
        ("/judge", b'{"question": "?", "steps": ["a"], "x": {"y": 1, "y": 2}}', 400, "the field `y` occurs twice"),
        ("/pooling", b'{"input": "a", "input": "b"}', 400, "the field `input` occurs twice"),
    ],
)
def test_a_wrong_request_is_answered_in_a_sentence(client, path, body, status, reason):
    answer = client.post(path, content=body)
    assert answer.status_code == status
    assert reason in answer.json()["error"]["message"]


@given(st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "<|im_", "user", "a", "\n", " "]), max_size=14))
def test_turns_are_those_between_a_start_with_a_role_and_the_next_end(parts):
    text = "".join(parts)
    assert list(_turns(text)) == re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", text, re.DOTALL)


def test_a_text_of_starts_without_an_end_is_answered(client):
    answer = client.post("/pooling", json={"input": "<|im_start|>a\n" * 500_000})
    assert answer.status_code == 400 and "whose steps end with <extra_0>" in answer.text


def test_others_are_answered_while_a_body_is_validated(client, monkeypatch):
    started, answered, waited = threading.Event(), threading.Event(), []

    class Slow(Solution):
        @model_validator(mode="after")
        def _waits(self) -> "Slow":
            started.set()
            waited.append(answered.wait(30))
            return self

    monkeypatch.setattr(judge_server, "Solution", Slow)
    with ThreadPoolExecutor(1) as thread:
        judged = thread.submit(client.post, "/judge", json={"question": QUESTION, "steps": STEPS})
        assert started.wait(60)
        assert client.get("/health").status_code == 200
        answered.set()
        assert judged.result().status_code == 200
    assert waited == [True]


def test_requests_of_other_sites_are_refused(client):
    body = {"question": QUESTION, "steps": STEPS}
    assert client.post("/judge", json=body, headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.post("/judge", json=body, headers={"Host": "evil.example"}).status_code == 400


def test_an_error_of_the_model_is_answered_and_the_next_request_is_judged(monkeypatch):
    def fail(*_):
        raise RuntimeError("no memory left")

    body = {"question": QUESTION, "steps": STEPS}
    monkeypatch.setattr(judge_server, "judged_rows", fail)
    app = judge_application("model", "cpmi_bce", 0.5)
    with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False) as other:
        assert "no memory left" in other.post("/judge", json=body).json()["error"]["message"]
        monkeypatch.setattr(judge_server, "judged_rows", by_length)
        assert other.post("/judge", json=body).status_code == 200


def test_halves_of_characters_in_other_fields_are_answered(client):
    body = b'{"question": "?", "steps": ["a"], "note": "\\ud800"}'
    answer = client.post("/judge", content=body)
    assert answer.status_code == 200 and answer.json()["id"] == 0


def test_a_field_that_can_be_read_and_not_written_is_refused(client, monkeypatch):
    dumps = json.dumps

    def refuse(value, **options):
        if value == {"deep": [[]]}:
            raise RecursionError
        return dumps(value, **options)

    monkeypatch.setattr(judge_server.json, "dumps", refuse)
    answer = client.post("/judge", content=b'{"question": "?", "steps": ["a"], "deep": [[]]}')
    assert answer.status_code == 400 and "solution 0: a field is nested too deeply" in answer.text


def test_one_solution_that_the_model_cannot_judge_fails_alone(monkeypatch):
    def picky(model, solutions, threshold, advance):
        if any(each.question == "bad" for each in solutions):
            raise RuntimeError("a number is not finite")
        return by_length(model, solutions, threshold, advance)

    monkeypatch.setattr(judge_server, "judged_rows", picky)

    async def ask() -> list[object]:
        judge = Judge("model", 0.5)
        work = asyncio.create_task(judge.work())
        asked = [Solution(id=name, question=name, steps=["xx"]) for name in ("good", "bad", "fine")]
        answers = await asyncio.gather(*(judge.rows([each]) for each in asked), return_exceptions=True)
        work.cancel()
        return answers

    with ThreadPoolExecutor(1) as thread:
        good, bad, fine = thread.submit(asyncio.run, ask()).result()
    assert isinstance(bad, RuntimeError)
    assert [row["probabilities"] for (row,) in (good, fine)] == [[0.5], [0.5]]


def test_many_at_once_are_judged_in_few_batches_and_each_has_its_own_answer(monkeypatch):
    sizes = []

    def counted(model, solutions, threshold, advance):
        sizes.append(len(solutions))
        return by_length(model, solutions, threshold, advance)

    monkeypatch.setattr(judge_server, "judged_rows", counted)

    async def ask() -> list[float]:
        judge = Judge("model", 0.5)
        work = asyncio.create_task(judge.work())
        asked = [Solution(id=str(size), question="?", steps=["x" * size]) for size in range(1, 101)]
        answers = await asyncio.gather(*(judge.rows([solution]) for solution in asked))
        work.cancel()
        return [row["probabilities"][0] for (row,) in answers]

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, ask()).result() == [1 / size for size in range(1, 101)]
    assert sum(sizes) == 100
    assert len(sizes) <= 2
