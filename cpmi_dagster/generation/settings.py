"""Settings of sampled text."""

from typing import Any

from pydantic import Field, field_validator

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.contracts.source_tables import SOLUTIONS_PER_QUESTION


class Sampling(Frozen):
    """How text is sampled."""

    temperature: float = Field(
        gt=0, description="1 samples from the model's distribution; lower is closer to its best token"
    )
    top_p: float = Field(gt=0, le=1, description="smallest set of tokens whose probabilities reach this sum")
    top_k: int = Field(default=0, ge=0, description="0 = no limit")
    max_new_tokens: int = Field(ge=1, description="longest continuation in tokens")


SOLUTIONS = Sampling(temperature=0.7, top_p=0.95, max_new_tokens=1024)
"""Defaults for sampling solutions."""


class SolutionSampling(Frozen):
    """Sampling of solutions by the policy, for sources of questions."""

    solutions: int = Field(ge=1, le=SOLUTIONS_PER_QUESTION, description="solutions sampled per question")
    chat: bool = Field(default=False, description="ask through the chat template of the policy's tokenizer")
    sampling: Sampling = Field(default=SOLUTIONS, description="how tokens are drawn")

    @field_validator("sampling", mode="before")
    @classmethod
    def _over_the_default(cls, given: Any) -> Any:
        return {**SOLUTIONS.model_dump(), **given} if isinstance(given, dict) else given


class Rollouts(Frozen):
    """Monte-Carlo completions (Eq. 1 and 2; released settings)."""

    policy_count: int = Field(default=8, ge=1, description="T, completions of a prefix by the rollout model")
    prover_count: int = Field(default=4, ge=1, description="completions of a prefix by the prover, for PAV")
    batch_sequences: int = Field(default=256, ge=1, description="completions sampled at the same time")
    chunk_trajectories: int = Field(
        default=64, ge=1, description="most trajectories whose completions are kept together, fewer where they are slow"
    )
    sample: int | None = Field(
        default=None, ge=1, description="trajectories whose prefixes are completed, as many of each shard; null = all"
    )
    sampling: Sampling = Field(
        default=Sampling(temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=512), description="how tokens are drawn"
    )
