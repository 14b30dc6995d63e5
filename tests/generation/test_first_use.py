"""What a process spends once, to load a model, is not part of what labels cost."""

import time

from cpmi_dagster.generation.engine import Generation, timed_generate
from cpmi_dagster.generation.settings import Sampling

SAMPLING = Sampling(temperature=1.0, top_p=1.0, top_k=0, max_new_tokens=4)


def test_sampling_does_not_pay_for_the_loading_of_its_engine(monkeypatch):
    seconds = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: seconds)

    class LazyEngine:
        identity = "lazy@0"

        def prepare(self):
            nonlocal seconds
            seconds += 100

        def generate(self, prompts, sampling, samples, seed, stop="answer", first=0):
            nonlocal seconds
            seconds += 1
            return [[Generation("4", 1, False, prompt_tokens=3)] for _ in prompts]

    _, cost = timed_generate(LazyEngine(), ["What is 2 + 2?"], SAMPLING, 1, 0)
    assert cost.wall_seconds == 1
