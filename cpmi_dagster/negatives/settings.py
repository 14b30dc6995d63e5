"""Settings of the hard negatives."""

from typing import Literal

from pydantic import Field

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.generation.settings import Sampling


class Negatives(Frozen):
    """Hard negatives (section 5.1; released settings)."""

    count: int = Field(default=4, ge=1, description="M, hard negatives of a trajectory")
    samples: int = Field(default=8, ge=0, description="model samples per trajectory; 0 = heuristics only")
    max_answer_characters: int = Field(default=32, ge=1, description="a longer sampled answer is left out")
    sampling: Sampling = Field(
        default=Sampling(temperature=1.05, top_p=0.9, max_new_tokens=24), description="how tokens are drawn"
    )
    sees: Literal["solution", "question"] = Field(
        default="solution",
        description="what the labeler is shown: question, gold answer and steps, as by the released code; or the "
        "question alone, as in the paper's text",
    )
