"""The base of every settings class."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
