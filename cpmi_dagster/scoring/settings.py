"""Settings of the scorer."""

from typing import Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, field_validator

from cpmi_dagster.contracts.contexts import CONDITIONINGS, Conditioning
from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.tree_forward import Reader


class Scoring(Frozen):
    """The token-tree scorer."""

    templates: int = Field(default=4, ge=1, le=4, description="K, the first templates of the appendix")
    conditionings: tuple[Conditioning, ...] = tuple(name for name, entry in CONDITIONINGS.items() if entry.by_default)
    row_tokens: int | None = Field(
        default=None, ge=16, description="tokens of one packed row; from free memory when null"
    )
    reader: Reader = Field(default="auto", description="how the model reads token trees; auto = by hardware and model")
    chunk_trajectories: int = Field(
        default=64, ge=1, description="most trajectories whose answers are kept together, fewer where they are slow"
    )
    scorer: Literal["tree", "reference"] = Field(
        default="tree", description="packed token trees, or one sequence at a time"
    )
    layout: Literal["paper", "released"] = Field(
        default="paper", description="released: steps numbered, blank lines between pieces, the bare answer as target"
    )

    @field_validator("templates", mode="wrap")
    @classmethod
    def _is_a_count(cls, given: Any, check: ValidatorFunctionWrapHandler) -> int:
        try:
            return check(given)
        except ValidationError as error:
            raise ValueError("it must be the number of the first templates to use, 1 to 4") from error

    @property
    def other_layout(self) -> str | None:
        """The layout if it is not the paper's; None keeps the keys of profiles without the setting."""
        return None if self.layout == "paper" else self.layout


class ProfileScoring(Scoring):
    """The scorer of a profile, whose reward types add the conditionings that they need."""

    conditionings: tuple[Conditioning, ...] = Field(
        default=(), description="scored beside those that the reward types need"
    )
