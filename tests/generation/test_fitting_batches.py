"""What happens when memory runs out while texts are drawn: smaller batches, the same texts."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation import decoding
from cpmi_dagster.generation.engine import Generation
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models.language_models import LoadedModel

SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_new_tokens=24)
PROMPTS = ["Problem: 2 + 3\n", "x\n", "A much longer question, told in many words\nStep one\n", "Problem: 2 + 3\n"]
SAMPLES = 3
ON_GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free\nand more")
ON_CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "8 bytes. Error code 12 (Cannot allocate memory)"
)

pytestmark = pytest.mark.parametrize("tiny_model", ["qwen3"], indirect=True)


class Memory:
    """Fails every forward pass of more than `rows` rows, from pass number `first` on."""

    def __init__(self, rows: int, error: RuntimeError = ON_GPU, first: int = 0) -> None:
        self.rows, self.error, self.first = rows, error, first
        self.passes = self.failures = 0

    def __call__(self, model: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        self.passes += 1
        if len(kwargs["input_ids"]) > self.rows and self.passes > self.first:
            self.failures += 1
            raise self.error


@pytest.fixture
def fresh(tiny_model) -> LoadedModel:
    """The model with nothing remembered of other tests."""
    return replace(tiny_model)


@pytest.fixture
def with_memory(fresh) -> Iterator[Callable[[Memory], Memory]]:
    """Gives the model a memory."""
    hooks = []

    def give(memory: Memory) -> Memory:
        hooks.append(fresh.model.register_forward_pre_hook(memory, with_kwargs=True))
        return memory

    yield give
    for hook in hooks:
        hook.remove()


def drawn(loaded: LoadedModel, batch_sequences: int = 8) -> list[list[Generation]]:
    """Generations without what their prompts cost, which depends on what is read together."""
    generations = TransformersEngine(loaded, batch_sequences).generate(PROMPTS, SAMPLING, SAMPLES, 0)
    return [[replace(one, prompt_tokens=0) for one in group] for group in generations]


@pytest.mark.parametrize("error", [ON_GPU, ON_CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_model_out_of_memory_draws_the_same_texts_in_smaller_batches(fresh, tiny_model, with_memory, rows, error):
    expected = drawn(tiny_model)
    memory = with_memory(Memory(rows, error))
    assert drawn(fresh) == expected
    assert memory.failures


def test_the_size_that_fits_is_remembered_by_the_model_and_by_no_other(fresh, tiny_model, with_memory):
    memory = with_memory(Memory(2))
    drawn(fresh)
    assert memory.failures == 2  # at 8 continuations, at 4
    drawn(fresh)
    assert memory.failures == 2
    drawn(replace(tiny_model))
    assert memory.failures == 4


def test_half_of_the_rows_in_use_is_tried_next_not_half_of_those_allowed(fresh, with_memory):
    memory = with_memory(Memory(6))
    drawn(fresh, batch_sequences=1024)
    assert memory.failures == 1  # 12 rows of 1,024


def test_texts_that_had_ended_when_memory_ran_out_are_kept(fresh, tiny_model, with_memory, monkeypatch):
    expected = drawn(tiny_model)
    rounds: list[list[int]] = []
    decode = decoding.decode

    def recorded(model, prompts, *settings):
        rounds.append([len(prompts), 0])
        for continuation in decode(model, prompts, *settings):
            rounds[-1][1] += 1
            yield continuation

    monkeypatch.setattr(decoding, "decode", recorded)
    with_memory(Memory(4, first=30))
    assert drawn(fresh) == expected
    (asked, ended), (again, _) = rounds
    assert 0 < ended < asked == len(PROMPTS) * SAMPLES
    assert again == asked - ended


def test_prompt_tokens_are_those_read_for_the_texts_that_came_of_it(fresh, with_memory):
    engine = TransformersEngine(fresh, 4)
    with_memory(Memory(2))
    generations = engine.generate(PROMPTS[:3], SAMPLING, 2, 0)
    assert [group[0].prompt_tokens for group in generations] == [len(prompt) for prompt in PROMPTS[:3]]


def test_a_single_text_too_many_is_an_error_that_says_what_to_do(fresh, with_memory):
    with_memory(Memory(0))
    with pytest.raises(
        ModelError, match=r"too little memory for a single continuation of a prompt of \d+ tokens"
    ) as caught:
        drawn(fresh)
    assert fresh.identity in str(caught.value) and "lower `max_new_tokens`" in str(caught.value)
    assert "Tried to allocate 2.00 GiB" in str(caught.value) and "\n" not in str(caught.value)


def test_other_errors_of_the_model_pass_unchanged(fresh, with_memory):
    memory = with_memory(Memory(0, RuntimeError("mat1 and mat2 shapes cannot be multiplied")))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        drawn(fresh)
    assert memory.failures == 1
