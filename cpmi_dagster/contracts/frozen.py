"""The base of every group of settings."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A group of settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
