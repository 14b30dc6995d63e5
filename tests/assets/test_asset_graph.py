"""A snapshot of the whole asset graph: keys, dependencies, partitions, pools. A change here is a change for users.

After a change on purpose: `python tests/assets/test_asset_graph.py` writes the snapshot again.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpmi_dagster.answers.comparison import Answers
from cpmi_dagster.contracts.keys import (
    CANDIDATES,
    CHOICES,
    CPMI_80K,
    FIGURES,
    NEGATIVES,
    POLICY_ROLLOUTS,
    PROVER_ROLLOUTS,
    REFERENCES,
    REPORT,
    SHEPHERD,
    STEP_REWARDS,
    TRAJECTORIES,
)
from cpmi_dagster.definitions import STAGE_BY_TABLE, STAGES, build_definitions, home_of
from cpmi_dagster.errors import SettingsError
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.partitions import needed_assets
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.dag.facts import recipe_facts, setting_values
from cpmi_dagster.resources.dag.jobs import LABEL, PHASES, PROFILE_TAG
from cpmi_dagster.resources.dag.presentation import code_version
from cpmi_dagster.resources.dag.stage import ancestors, carried_inputs, direct_inputs

SNAPSHOT = Path(__file__).parent / "asset_graph.json"
COMPARED = {
    TRAJECTORIES, NEGATIVES, POLICY_ROLLOUTS, PROVER_ROLLOUTS, STEP_REWARDS, CHOICES, FIGURES, REPORT
}  # fmt: skip
"""Tables for which answers are compared by the profile's function."""


def graph(home: Path) -> dict[str, dict[str, object]]:
    """Every asset of the miniature as Dagster has it, with what it depends on and how it is run."""
    shown = home_of(load_settings("miniature", home))
    assets = build_definitions(shown).resolve_asset_graph()
    return {
        key: {
            "deps": sorted(parent.to_user_string() for parent in assets.get(dg.AssetKey(key.split("/"))).parent_keys),
            "partitions": stage.run_partitioning,
            "pool": stage.pool,
            "code_version": stage.code_version,
        }
        for key, stage in shown.stages.items()
        if key in needed_assets(shown.settings)
    }


def test_the_asset_graph_is_the_one_users_know_and_can_be_read_at_one_look(tmp_path):
    shown = graph(tmp_path)
    assert shown == json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert len(shown) <= 25 and sum(len(asset["deps"]) for asset in shown.values()) <= 45
    assert {key for key, asset in shown.items() if len(asset["deps"]) > 4} <= {STEP_REWARDS, FIGURES}


def test_where_models_run_where_references_lie_and_what_no_row_shows_make_nothing_stale(tmp_path):
    settings = load_settings("miniature", tmp_path)
    backbone = settings.models.backbone
    settings = settings.model_copy(
        update={
            "training": settings.training.model_copy(update={"backbone": "full"}),
            "recipes": tuple(each.model_copy(update={"backbone": backbone}) for each in settings.recipes),
        }
    )

    def moved(model: LanguageModel) -> LanguageModel:
        return model.model_copy(update={"device": "cuda:3", "device_map": "auto", "gpu_memory_share": 0.5})

    def declared(settings: Settings) -> list[object]:
        home = home_of(settings)
        recipes = [recipe_facts(recipe, settings) for recipe in settings.recipes]
        return [recipes, *((setting_values(each.settings, settings), code_version(each, home)) for each in STAGES)]

    models = settings.models.model_copy(update={role: model and moved(model) for role, model in settings.models})
    recipes = tuple(each.model_copy(update={"backbone": moved(backbone)}) for each in settings.recipes)
    assert declared(settings.model_copy(update={"models": models, "recipes": recipes})) == declared(settings)
    references = tuple(each.model_copy(update={"path": "elsewhere.jsonl"}) for each in settings.sources.references)
    fewer = settings.negatives.model_copy(update={"count": 1})
    sources = settings.sources.model_copy(update={"references": references})
    other = settings.model_copy(update={"sources": sources, "negatives": fewer})
    for key in (REFERENCES, CPMI_80K):
        assert setting_values(STAGE_BY_TABLE[key].settings, other) == setting_values(
            STAGE_BY_TABLE[key].settings, settings
        )


@pytest.mark.parametrize(
    ("equivalent", "read"),
    [
        (None, {SHEPHERD, *COMPARED, CANDIDATES}),
        ("operator:eq", {SHEPHERD, CANDIDATES}),  # which compare options
    ],
)
def test_a_later_version_of_the_built_in_equivalence_makes_stale_what_reads_it(monkeypatch, equivalent, read):
    settings = load_settings("miniature").model_copy(update={"answers": Answers(equivalent=equivalent)})
    now = {each.table: setting_values(each.settings, settings) for each in STAGES}
    monkeypatch.setattr("cpmi_dagster.answers.comparison.EQUIVALENCE_VERSION", "later")
    assert {each.table for each in STAGES if setting_values(each.settings, settings) != now[each.table]} == read


@pytest.mark.parametrize(("types", "reads"), [(("mc", "cpmi"), False), (("cpmi", "pav_merge1"), True)])
def test_the_weight_in_pav_makes_labels_stale_if_one_of_them_reads_it(types, reads):
    settings = load_settings("miniature")
    rewards = settings.rewards.model_copy(update={"types": types})
    before, after = (
        setting_values(STAGE_BY_TABLE[STEP_REWARDS].settings, settings.model_copy(update={"rewards": each}))
        for each in (rewards, rewards.model_copy(update={"alpha": 0.3}))
    )
    assert (before != after) == reads


@given(st.sets(st.sampled_from(sorted(STAGE_BY_TABLE)), min_size=1))
def test_what_is_read_through_an_input_is_upstream_of_it_and_a_part_of_its_version(there):
    stages = {key: STAGE_BY_TABLE[key] for key in there}
    for key, stage in stages.items():
        direct = direct_inputs(stage, stages)
        inputs = {name for name in stage.inputs if name in stages}
        assert {*direct, *(above for name in direct for above in ancestors(name, stages))} == ancestors(key, stages)
        carried = {name for each in direct for name in carried_inputs(each, stages)}
        assert inputs - {*direct} <= carried


@pytest.mark.parametrize("name", ["miniature", "paper"])
def test_every_profile_has_what_it_asks_for_and_all_jobs(tmp_path, name):
    settings = load_settings(name, tmp_path)
    definitions = build_definitions(home_of(settings))
    repository = definitions.get_repository_def()
    repository.load_all_definitions()
    assert {spec.key.to_user_string() for spec in definitions.resolve_all_asset_specs()} == {*needed_assets(settings)}
    jobs = {job.name: job for job in repository.get_all_jobs() if not job.name.startswith("__")}
    assert set(PHASES) <= set(jobs)
    assert jobs[LABEL].run_tags[PROFILE_TAG] == name


def test_a_profile_that_cannot_be_run_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: miniature\norchestration: {schedule: foo}\n")
    with pytest.raises(SettingsError, match=r"`orchestration\.schedule` is `foo`, which is not a cron"):
        build_definitions(home_of(load_settings(tmp_path / "mine.yaml", tmp_path)))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        SNAPSHOT.write_text(json.dumps(graph(Path(folder)), indent=2, sort_keys=True) + "\n", encoding="utf-8")
