"""Settings of how work is run: GPUs, schedule, retries, notifications.

orchestration: {gpus: 8, shards_per_tick: 16, webhook_variable: TEAM_WEBHOOK}
"""

from pydantic import Field

from cpmi_dagster.contracts.frozen import Frozen


class Orchestration(Frozen):
    """Settings of Dagster."""

    gpus: int = Field(default=1, ge=1, description="GPUs: as many runs label at once, each on its own")
    shards_per_tick: int = Field(default=4, ge=1, description="most shards one schedule tick requests")
    schedule: str = Field(default="*/10 * * * *", description="cron of the missing-or-failed-shards schedule")
    retries: int = Field(default=3, ge=0, description="retries of a step that lacked memory or a server's answer")
    retry_seconds: float = Field(default=30, ge=0, description="before the first of them; doubled each time")
    webhook_variable: str | None = Field(
        default=None, description="environment variable with the URL that failed runs are posted to"
    )
    fresh_within_days: float | None = Field(
        default=None, gt=0, description="age beyond which Dagster shows the data set as overdue; null is never"
    )
