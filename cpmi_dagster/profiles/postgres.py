"""The PostgreSQL that keeps Dagster's runs, events and ticks, where a profile names one."""

from pydantic import Field, field_validator

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.files.environment import is_variable_name


class Postgres(Frozen):
    """A PostgreSQL server and database; the password is in the environment alone."""

    host: str = Field(min_length=1)
    port: int = Field(default=5432, ge=1, le=65535)
    database: str = Field(default="dagster", min_length=1)
    user: str = Field(default="dagster", min_length=1)
    password_variable: str = Field(default="PG_PASSWORD", description="environment variable that holds the password")

    @field_validator("password_variable")
    @classmethod
    def _variable_name(cls, value: str) -> str:
        if not is_variable_name(value):
            raise ValueError("give the name of an environment variable, such as PG_PASSWORD, not the password itself")
        return value
