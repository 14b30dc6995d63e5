"""The CPMI-80k choice: which trajectories are labelled. The one global step, since its ratios are."""

from cpmi_dagster.selection.select import select_trajectories
from resources.stage import stage
from resources.stage_run import StageOutput, StageRun


@stage(
    "selection/selected_trajectories",
    code_version="2",
    inputs=["alignment/trajectories"],
    settings=["selection", "shards"],
    lineage={
        "shard": ["alignment/trajectories.question_id"],
        "composition": ["alignment/trajectories.shepherd_labels"],
    },
)
def selected_trajectories(run: StageRun) -> StageOutput:
    """GSM8K : MATH = 1 : 1, mixed : pure = 7 : 3, too hard questions left out, spread over questions (appendix B)."""
    settings = run.settings
    result = select_trajectories(run.read("alignment/trajectories"), settings.selection, settings.seed, settings.shards)
    return StageOutput(result.selected, notes=result.shortfalls)


STAGES = (selected_trajectories,)
