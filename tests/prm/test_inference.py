"""However solutions are read, as trees, side by side or one after the other, or alone, their scores are the same."""

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from cpmi_dagster.prm import scoring
from cpmi_dagster.prm.inputs import EncodedSolution
from cpmi_dagster.prm.model import LoadedRewardModel
from cpmi_dagster.prm.scoring import StepReader, probabilities, step_values
from cpmi_dagster.reading.row_reader import RowReader

pytestmark = pytest.mark.slow

BuildRewardModel = Callable[..., LoadedRewardModel]
token_lists = st.lists(st.integers(2, 6), min_size=1, max_size=30)


@st.composite
def solutions(draw: st.DrawFn) -> list[EncodedSolution]:
    """Solutions that begin alike in several ways; some occur twice."""
    beginnings = draw(st.lists(token_lists, min_size=1, max_size=3))
    encoded = []
    for rest in draw(st.lists(token_lists, min_size=1, max_size=8)):
        tokens = draw(st.sampled_from(beginnings)) + rest
        ends = draw(st.sets(st.integers(0, len(tokens) - 1), min_size=1, max_size=4))
        encoded.append(EncodedSolution(tokens, sorted(ends)))
    return encoded


def reader_of(loaded: LoadedRewardModel) -> StepReader:
    return StepReader(loaded.model.backbone, loaded.encode, loaded.identity, 2048)


def scores(encoded: list[EncodedSolution], loaded: LoadedRewardModel, batch_tokens: int) -> list[list[float]]:
    """Of each solution."""
    read = lambda ends: probabilities(loaded.model.head(ends))  # noqa: E731
    return [values.tolist() for values in step_values(encoded, reader_of(loaded), read, batch_tokens)]


@pytest.fixture
def two_cores():
    """Torch computes with two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def row_lengths(monkeypatch):
    """The lengths of the rows that models read."""
    lengths: list[int] = []
    read = RowReader.read

    def counted(self, row):
        lengths.append(len(row))
        return read(self, row)

    monkeypatch.setattr(RowReader, "read", counted)
    return lengths


@given(encoded=solutions(), batch_tokens=st.integers(1, 300))
@settings(deadline=None, max_examples=30)
def test_solutions_read_together_score_as_each_alone_in_the_model_itself(build_reward_model, encoded, batch_tokens):
    loaded = build_reward_model()
    together = scores(encoded, loaded, batch_tokens)
    assert len(together) == len(encoded)
    for solution, found in zip(encoded, together, strict=True):
        tokens, ends = torch.tensor([solution.token_ids]), torch.tensor([solution.step_positions])
        with torch.inference_mode():
            alone = loaded.model(tokens, torch.ones_like(tokens), ends).logits[0].double().sigmoid()
        torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), alone, atol=1e-5, rtol=0)


def test_what_solutions_begin_with_alike_is_read_once(build_reward_model, row_lengths):
    loaded = build_reward_model()
    question, steps = [2] * 200, [[5, 6], [5, 7], [8]]
    encoded = [EncodedSolution([*question, *step], [200]) for step in steps]
    scores(encoded[:1], loaded, 1000)
    row_lengths.clear()
    scores(encoded, replace(loaded), 1000)
    assert row_lengths[-1] == 200 + 2 + 1 + 1


def test_passes_side_by_side_give_the_scores_of_passes_one_after_the_other(build_reward_model, monkeypatch, two_cores):
    loaded = build_reward_model()
    generator = torch.Generator().manual_seed(0)
    encoded = [EncodedSolution(torch.randint(2, 20, (40,), generator=generator).tolist(), [20, 39]) for _ in range(40)]
    monkeypatch.setattr(scoring, "CPU_ROW_TOKENS", 100)
    together, apart = scores(encoded, loaded, 400), scores(encoded, loaded, 100)
    assert [approx(found) for found in together] == apart
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gpt_neox", "bloom", "gemma2", "mistral"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_model_reads_solutions_as_it_reads_text(build_reward_model, architecture, dtype):
    loaded = build_reward_model(architecture)
    loaded.model.to(dtype)
    encoded = [EncodedSolution([2, 3, 4, *rest], [1, 2 + len(rest)]) for rest in ([5, 6], [7], [5, 8, 9])]
    states = step_values(encoded, reader_of(loaded), torch.Tensor.float, 1000)
    for solution, found in zip(encoded, states, strict=True):
        with torch.inference_mode():
            text = loaded.model.backbone(input_ids=torch.tensor([solution.token_ids])).last_hidden_state[0].float()
        difference = np.abs(found - text[solution.step_positions].numpy()).max()
        assert difference <= scoring.TOLERANCE[str(dtype).removeprefix("torch.")] * float(text.abs().max())


@pytest.mark.parametrize(("architecture", "as_trees"), [("qwen3", True), ("mistral", True), ("bloom", False)])
def test_models_that_cannot_read_trees_read_solutions_one_by_one(build_reward_model, architecture, as_trees, caplog):
    with caplog.at_level("INFO"):
        scores([EncodedSolution([2, 3, 4] * 20, [1, 59])], build_reward_model(architecture), 100)
    assert ("one by one" not in caplog.text) == as_trees


def test_rows_are_read_by_as_many_threads_as_there_are_passes(build_reward_model, monkeypatch, two_cores):
    met = threading.Barrier(2, timeout=120)
    loaded = build_reward_model()
    encoded = [EncodedSolution([first] * 60, [59]) for first in range(2, 6)]
    expected = scores(encoded, loaded, 10_000)
    read = RowReader.read
    threads: set[tuple[int, int]] = set()

    def together(self, row):
        if len(row) == 60:
            met.wait()
            threads.add((threading.get_ident(), torch.get_num_threads()))
        return read(self, row)

    monkeypatch.setattr(scoring, "CPU_ROW_TOKENS", 60)
    monkeypatch.setattr(RowReader, "read", together)
    assert [approx(values) for values in scores(encoded, loaded, 120)] == expected
    assert (len(threads), {count for _, count in threads}) == (2, {1})


def test_an_error_in_a_pass_is_raised_and_the_threads_are_put_back(build_reward_model, monkeypatch, two_cores):
    loaded = build_reward_model()
    monkeypatch.setattr(scoring, "CPU_ROW_TOKENS", 60)
    broken = lambda ends: 1 // 0  # noqa: E731
    with pytest.raises(ZeroDivisionError):
        step_values([EncodedSolution([first] * 60, [59]) for first in range(2, 6)], reader_of(loaded), broken, 120)
    assert torch.get_num_threads() == 2
