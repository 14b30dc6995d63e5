"""What happens when memory runs out while texts are drawn: smaller batches, the same texts."""

from dataclasses import replace

import pytest
import torch

from cpmi_dagster.generation.engine import Draws, Generation
from cpmi_dagster.generation.settings import Sampling
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models import memory
from cpmi_dagster.models.language_models import LoadedModel
from cpmi_dagster.models.memory import sampled_rows

SAMPLING = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_new_tokens=24)
PROMPTS = ["Problem: 2 + 3\n", "x\n", "A much longer question, told in many words\nStep one\n", "Problem: 2 + 3\n"]
ON_GPU = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free\nand more")
ON_CPU = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
    "8 bytes. Error code 12 (Cannot allocate memory)"
)


class Memory:
    """Fails every forward pass of more than `rows` rows, from pass number `first` on."""

    def __init__(self, rows: int, error: RuntimeError, first: int) -> None:
        self.rows, self.error, self.first = rows, error, first
        self.passes = self.failures = 0

    def __call__(self, model: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        self.passes += 1
        if len(kwargs["input_ids"]) > self.rows and self.passes > self.first:
            self.failures += 1
            raise self.error


def drawn(loaded: LoadedModel) -> list[list[Generation]]:
    """Generations without what their prompts cost, which depends on what is read together."""
    generations = TransformersEngine(loaded, 8).generate(PROMPTS, Draws(SAMPLING, 3, 0))
    return [[replace(one, prompt_tokens=0) for one in group] for group in generations]


@pytest.mark.parametrize(("rows", "error", "first"), [(1, ON_GPU, 0), (3, ON_CPU, 0), (4, ON_GPU, 30)])
def test_a_model_out_of_memory_draws_the_same_texts_in_smaller_batches(tiny_model, rows, error, first):
    # a copy without what earlier tests taught of the size that fits
    expected, fresh, memory = drawn(tiny_model), replace(tiny_model), Memory(rows, error, first)
    hook = fresh.model.register_forward_pre_hook(memory, with_kwargs=True)
    try:
        assert drawn(fresh) == expected
        failures = memory.failures
        assert drawn(fresh) == expected
        assert memory.failures == failures > 0  # the size that fits is remembered
    finally:
        hook.remove()


def test_continuations_that_do_not_fit_the_memory_of_a_cpu_are_not_drawn_at_once(tiny_model, monkeypatch):
    expected, widest = drawn(tiny_model), []
    config, itemsize = tiny_model.model.config, tiny_model.model.dtype.itemsize
    longest = max(len(tiny_model.tokenizer(prompt)["input_ids"]) for prompt in PROMPTS) + SAMPLING.max_new_tokens
    of_all = sampled_rows(config, itemsize, longest, torch.device("cpu"))
    monkeypatch.setattr(memory, "MOST_ON_CPU", memory.MOST_ON_CPU * 2 // of_all + 1)
    assert sampled_rows(config, itemsize, longest, torch.device("cpu")) == 2
    assert sampled_rows(config, itemsize, longest, torch.device("cuda")) is None
    see = tiny_model.model.register_forward_pre_hook(
        lambda model, args, kwargs: (
            widest.append(len(kwargs["input_ids"])) if kwargs["input_ids"].shape[1] == 1 else None
        ),
        with_kwargs=True,
    )
    try:
        assert drawn(tiny_model) == expected and max(widest) == 2
    finally:
        see.remove()
