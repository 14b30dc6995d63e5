"""A stage makes a table once, and again exactly when something that its rows follow from has changed."""

import shutil
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from stage_examples import SHARD, bring, count_selected, rewards, select, state, with_stages, write

from cpmi_dagster.assets.models import process_reward_models
from cpmi_dagster.contracts.keys import MODELS, NEGATIVES, SOFT_LABELS, STEP_REWARDS
from cpmi_dagster.contracts.tables import TABLES
from cpmi_dagster.errors import LakeError
from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.profiles.sources import DataSource
from cpmi_dagster.resources.dag.stage import Stage, StageOutput, stage
from cpmi_dagster.resources.dag.stage_run import Home, StageRun
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.models.language_models import LanguageModels


@stage(STEP_REWARDS, inputs=[NEGATIVES])
def reward(run: StageRun) -> StageOutput:
    """A reward of each trajectory that has negatives."""
    return StageOutput(rewards(*run.read(NEGATIVES)["trajectory_id"]))


@stage(SOFT_LABELS, inputs=[STEP_REWARDS])
def soften(run: StageRun) -> StageOutput:
    """A label of each reward."""
    return StageOutput(run.read(STEP_REWARDS).rename({"reward": "soft_label"}))


def no_rows(run: StageRun) -> StageOutput:
    return StageOutput({key: TABLES[key].schema.create_empty() for key in run.stage.tables})


def changed(home: Home, **groups: Any) -> Home:
    """A home whose profile says something else."""
    return replace(home, settings=home.settings.model_copy(update=groups))


def fewer_negatives(home: Home) -> Home:
    return changed(home, negatives=home.settings.negatives.model_copy(update={"count": 2}))


def test_what_is_unchanged_is_skipped_unless_it_is_to_be_made_again_which_is_once(home):
    select(home, "t1")
    assert [bring(home, count_selected) for _ in range(2)] == [True, False]
    select(home, "t1")  # made again with the same rows
    select(home, "t2", shard="001")
    assert not bring(home, count_selected)
    forced = replace(home, remake={f"{NEGATIVES} 000"})
    assert [bring(forced, count_selected) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("what", ["code version", "setting", "seed", "input row"])
def test_a_change_makes_what_follows_from_it_and_nothing_else(home, what):
    select(home, "t1")
    assert [bring(home, each) for each in (count_selected, reward)] == [True, True]
    first = replace(count_selected, code_version="2") if what == "code version" else count_selected
    if what == "setting":
        home = fewer_negatives(home)
    elif what == "seed":
        home = changed(home, seed=5)
    elif what == "input row":
        select(home, "t1", "t2")
    assert state(home, first).kind == "stale"
    # its rows are the same for another code version or setting
    assert [bring(home, each) for each in (first, reward)] == [True, what in ("seed", "input row")]
    judged = with_stages(home, first, reward).states()
    assert {judged.state(key, SHARD).kind for key in (NEGATIVES, STEP_REWARDS)} == {"current"}


def test_a_body_that_fails_or_breaks_the_contract_writes_nothing(home):
    for body in (lambda run: 1 / 0, lambda run: StageOutput(rewards("t1", "t1"))):
        with pytest.raises((ZeroDivisionError, LakeError)):
            bring(home, Stage(body, STEP_REWARDS))
    assert not home.lake.has_table(STEP_REWARDS)


@pytest.mark.parametrize("name", ["rows.jsonl", "tokenizer.json", "config.json", "model.safetensors"])
def test_a_file_that_changes_while_rows_are_made_is_refused_and_makes_others_later(home, tmp_path, name):
    shutil.copytree(MODEL_FOLDERS["prover"], tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("{}\n")
    model = home.settings.models.labeler.model_copy(update={"name": str(tmp_path / "model")})
    home = changed(home, models=home.settings.models.model_copy(update={"labeler": model}))
    home = replace(home, models=LanguageModels(home.settings))
    source = DataSource(path=str(tmp_path / "rows.jsonl"))
    [file] = tmp_path.rglob(name)

    def change(run: StageRun) -> StageOutput:
        file.write_bytes(file.read_bytes() + b"\n")
        return no_rows(run)

    declared = Stage(no_rows, STEP_REWARDS, models=["labeler"], sources=lambda _: {"rows": source})
    what = "sources" if name == "rows.jsonl" else "models"
    with pytest.raises(LakeError, match=rf"the {what} of {STEP_REWARDS} 000 changed while its rows were made"):
        bring(home, replace(declared, body=change))
    assert not home.lake.has_table(STEP_REWARDS)
    assert [bring(home, declared) for _ in range(2)] == [True, False]
    file.write_bytes(file.read_bytes() + b"\n")
    assert bring(home, declared)


def test_a_table_of_everything_is_not_made_of_shards_of_other_settings(home):
    for shard in home.settings.shard_keys:
        select(home, f"t{shard}", shard=shard)
        assert all(bring(home, each, shard) for each in (count_selected, reward))
    home = with_stages(home, count_selected, reward)
    assert bring(home, soften, None)
    words = rf"{STEP_REWARDS} of shards 000 to 003 is stale, so {SOFT_LABELS} is not made from it: "
    words += rf"{NEGATIVES} 000 has negatives.count: 4, now 2; run `cpmi run -p miniature --only labels` first, or"
    with pytest.raises(LakeError, match=words):
        bring(fewer_negatives(home), soften, None)


def test_what_the_profile_does_not_ask_for_reads_as_empty_though_old_rows_are_there(home):
    select(home, "t1")
    assert bring(home, count_selected)
    without = changed(home, rewards=home.settings.rewards.model_copy(update={"types": ["position"]}), recipes=())
    without = replace(without, lake=Lake.of(without.settings))
    assert without.lake.read(NEGATIVES).is_empty() and without.lake.record(NEGATIVES, SHARD) is None
    assert home.lake.read(NEGATIVES).height == 1


def test_a_partition_is_not_made_from_stale_inputs_of_its_own_shard(home):
    select(home, "t1")
    home = with_stages(home, count_selected)
    assert bring(home, count_selected)
    with pytest.raises(LakeError, match=rf"{NEGATIVES} of shard 000 is stale, so {STEP_REWARDS} 000 is not made from"):
        bring(fewer_negatives(home), reward)


def test_a_recipe_follows_from_its_own_soft_labels_alone(home):
    facts = []
    for pav in (0.2, 0.9):
        labels = pl.DataFrame({"reward_type": ["mc", "pav"], "soft_label": [0.1, pav]})
        write(home, SOFT_LABELS, labels.with_columns(trajectory_id=pl.lit("t"), step_index=0), None)
        train = replace(process_reward_models, inputs=[SOFT_LABELS])
        facts.append([home.states().facts(train, name)["inputs"] for name in ("mc_bce", "pav_bce")])
    assert facts[0][0] == facts[1][0] and facts[0][1] != facts[1][1]


def test_a_recipe_that_is_done_leaves_the_unfinished_training_of_one_with_a_longer_name(home):
    folders = []

    def train(run: StageRun) -> StageOutput:
        folders.append(run.checkpoints)
        run.checkpoints.mkdir(parents=True)
        if run.partition != "cpmi":
            raise LakeError("killed")
        return no_rows(run)

    recipe = home.settings.recipes[0]
    names = ("cpmi-large", "cpmi.2", "cpmi")
    home = changed(home, recipes=tuple(recipe.model_copy(update={"name": name}) for name in names))
    home = replace(home, lake=Lake.of(home.settings))
    training = Stage(train, MODELS)
    for name in names[:2]:
        with pytest.raises(LakeError, match="killed"):
            bring(home, training, name)
    assert bring(home, training, "cpmi")
    assert [folder.is_dir() for folder in folders] == [True, True, False]
