"""What a plan counts is what a run reports; the size of models, and tokens to seconds, against figures by hand."""

import shutil
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from transformers import Qwen3Config, Qwen3MoeConfig

from cpmi_dagster import definitions
from cpmi_dagster.contracts.cost import Cost
from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.monte_carlo import prefix_rollouts
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.models.language_models import load_language_model, model_folder
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.negatives.hard_negatives import hard_negatives
from cpmi_dagster.planning import measuring
from cpmi_dagster.planning.counting import count_labels
from cpmi_dagster.planning.hardware import CPU, Hardware, PlannedModel, planned_model
from cpmi_dagster.planning.training import TrainingPlan, plan_training
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.commands.plan import Plan
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.scoring.logprobs import control_logprobs

# 1 TFLOP/s, of which reading reaches half and sampling a quarter; token trees as on a CPU
CARD = Hardware(CPU, {"float32": 1, "bfloat16": 2}, reading=0.5, sampling=0.25)
SHELLS = "Ana has 48 shells and finds half as many. How many has she?"
FRUITS = "Ben has 7 apples and 3 pears. How many fruits has he?"
ROWS = [
    ("t000000001", SHELLS, ["48 / 2 = 24", "48 + 24 = 72. The answer is: 72"], "72"),
    ("t000000002", SHELLS, ["48 / 2 = 24", "48 - 24 = 24", "So 24. The answer is: 24"], "72"),
    ("t000000003", FRUITS, ["He has 3 + 4 = 7 left. The answer is: 7"], "10"),
    ("t000000004", FRUITS, ["7 - 3 = 4", "4 x 7 = 28", "28 + 3 = 31", "The answer is: 31"], "10"),
]
TRAJECTORIES = pl.DataFrame(ROWS, ["trajectory_id", "question", "steps", "gold_answer"], orient="row")


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Settings:
    """The miniature with few rollouts, in a home of its own."""
    own = load_settings("miniature", tmp_path_factory.mktemp("planned"))
    sampling = own.rollouts.sampling.model_copy(update={"max_new_tokens": 24})
    rollouts = own.rollouts.model_copy(update={"policy_count": 2, "prover_count": 1, "sampling": sampling})
    return own.model_copy(update={"rollouts": rollouts})


@pytest.fixture(scope="module")
def models(settings) -> dict[str, PlannedModel]:
    """The embedded world's models, planned with."""
    return {role: planned_model(settings.models.of(role), CARD) for role in ("labeler", "rollouts", "prover")}


def test_what_is_read_is_known_before_anything_is_sampled(settings, models):
    labeler, prover = (
        TransformersEngine(load_language_model(f"miniature:{name}", dtype="float32"), 32)
        for name in ("labeler", "prover")
    )
    rollouts, how = settings.rollouts, (settings.rollouts.sampling, settings.seed)
    spent = {
        "hard_negatives": hard_negatives(TRAJECTORIES, labeler, settings.negatives, settings.seed).cost,
        "policy_rollouts": prefix_rollouts(TRAJECTORIES, labeler, None, 1, rollouts.policy_count, *how)[1],
        "prover_rollouts": prefix_rollouts(TRAJECTORIES, prover, None, 0, rollouts.prover_count, *how)[1],
        "control_logprobs": control_logprobs(TRAJECTORIES, labeler.model, settings.scoring).cost,
    }
    counted = count_labels(TRAJECTORIES, settings, models).costs
    for part, cost in spent.items():
        read = cost.forward_tokens - cost.generated_tokens
        assert counted[part].forward_tokens - counted[part].generated_tokens == read > 0
        assert counted[part].wall_seconds > 0


def test_a_continuation_is_as_long_as_the_steps_that_remain(settings, models):
    counted = count_labels(TRAJECTORIES[1:2], settings, models)
    encode = models["rollouts"].tokenizer.encode
    before, last = (
        len(encode(f"{step}\n", add_special_tokens=False)) for step in ("48 - 24 = 24", "So 24. The answer is: 24")
    )
    limit, count = settings.rollouts.sampling.max_new_tokens, settings.rollouts.policy_count
    expected = [count * min(before + last, limit), count * min(last, limit), count]
    assert counted.rollouts["rollouts"]["generated_tokens"].to_list() == expected
    assert counted.rollouts["prover"]["prefix_length"].to_list() == [0, 1, 2, 3]


def test_completions_that_trajectories_share_are_planned_once_for_every_method(settings, models):
    once = count_labels(TRAJECTORIES[1:2], settings, models)
    again = TRAJECTORIES[1:2].with_columns(trajectory_id=pl.lit("t000000099"))
    twice = count_labels(pl.concat([TRAJECTORIES[1:2], again]), settings, models)
    for role in ("rollouts", "prover"):
        assert twice.rollouts[role].equals(once.rollouts[role])


def test_seconds_are_those_worked_out_by_hand(models):
    model = PlannedModel(models["labeler"].tokenizer, 4096, 1_000_000, "float32", CARD)
    # 2 x 1e6 parameters x 1000 tokens = 2e9 FLOP at 0.5e12 FLOP/s; 2e8 FLOP of 100 tokens at 0.25e12
    assert model.cost(1000, generated=100).wall_seconds == pytest.approx(2e9 / 0.5e12 + 2e8 / 0.25e12)
    assert model.cost(1000, generated=100) == Cost(model.cost(1000, 100).wall_seconds, 1100, 100)
    half = replace(model, dtype="bfloat16")
    assert half.cost(1000).wall_seconds * 2 == pytest.approx(model.cost(1000).wall_seconds)


def test_training_takes_three_passes_an_epoch_and_four_numbers_a_weight_or_one_pass_over_a_frozen_backbone(settings):
    model = planned_model(settings.models.of("backbone"), CARD)
    recipes = settings.recipes[:2]

    def plan(**training: Any) -> TrainingPlan:
        changed = settings.training.model_copy(update={"epochs": 2.0, **training})
        own = settings.model_copy(update={"recipes": recipes, "training": changed})
        planned = plan_training(own, TRAJECTORIES, 400, CARD)
        assert planned is not None and planned.recipes == 2
        return planned

    frozen, full = plan(backbone="frozen"), plan(backbone="full")
    assert full.hours == pytest.approx(2 * 3 * 2 * frozen.hours, rel=0.01)
    assert frozen.gib == pytest.approx(model.parameters * 4 / 2**30)
    assert model.parameters * 16 / 2**30 < full.gib < model.parameters * 16 / 2**30 + 2.1
    longest = max(len(model.tokenizer("\n".join([row[1], *row[2]]))["input_ids"]) for row in ROWS)
    assert frozen.hours * 3600 <= model.cost(400 * longest).wall_seconds


@pytest.fixture
def planned(tmp_path):
    """The model of a config, without weights."""

    def build(config) -> PlannedModel:
        config.save_pretrained(tmp_path)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{model_folder('miniature:labeler')}/{name}", tmp_path)
        return planned_model(LanguageModel(name=str(tmp_path)), CARD)

    return build


def test_qwen3_8b_is_as_big_as_its_card_says(planned):
    config = Qwen3Config(
        hidden_size=4096, intermediate_size=12_288, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, vocab_size=151_936, tie_word_embeddings=False, max_position_embeddings=32_768, dtype="bfloat16",
    )  # fmt: skip
    model = planned(config)
    assert (round(model.parameters / 1e9, 2), model.dtype, model.context_length) == (8.19, "bfloat16", 32_768)


def test_of_a_mixture_of_experts_the_chosen_ones_count(planned):
    sizes: dict[str, Any] = {
        "hidden_size": 32, "moe_intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 50, "num_experts": 8,
    }  # fmt: skip
    few, many = (planned(Qwen3MoeConfig(num_experts_per_tok=chosen, **sizes)) for chosen in (1, 3))
    assert many.parameters - few.parameters == 2 * 3 * 32 * 16


FIGURES = ["forward_tokens", "generated_tokens"]


def plan_of(settings, hardware: str | None = None) -> Plan:
    return definitions.plan(settings, hardware, lambda *_: None)


@pytest.mark.slow
def test_a_plan_of_a_finished_home_is_what_the_run_reports(finished):
    reported = (
        Lake.of(finished).read("labels/labeling_costs").group_by("method").agg(pl.col(*FIGURES, "wall_seconds").sum())
    )
    plan = plan_of(finished)
    assert plan.is_measured and plan.trajectories == plan.counted
    both = plan.frame.join(reported, on="method", suffix="_reported")
    assert both.height == plan.frame.height - 1 == 20
    for name in FIGURES:
        assert both[name].equals(both[f"{name}_reported"].alias(name))
    assert (both["gpu_hours"] * 3600).to_list() == pytest.approx(both["wall_seconds"].to_list())


@pytest.mark.slow
def test_what_is_scored_is_estimated_exactly_and_what_methods_share_counts_once(finished):
    measured, estimated = (
        dict(plan_of(finished, hardware).frame.select("method", "forward_tokens").iter_rows())
        for hardware in (None, "laptop-cpu")
    )
    assert [estimated[name] for name in ("cpmi", "step_surprisal")] == [measured["cpmi"], measured["step_surprisal"]]
    for tokens in (measured, estimated):
        together = tokens.pop("together")
        assert max(tokens["mc"], tokens["pav"]) + tokens["cpmi"] <= together < sum(tokens.values())


@pytest.mark.slow
def test_the_total_leaves_out_mc_that_is_there_to_compare_with(finished):
    rewards = finished.rewards.model_copy(update={"types": ("cpmi",)})
    alone = finished.model_copy(update={"rewards": rewards, "recipes": ()})
    tokens = dict(plan_of(alone, "laptop-cpu").frame.select("method", "forward_tokens").iter_rows())
    assert tokens["together"] == tokens["cpmi"] and tokens["mc"] > 0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_rate_is_that_of_the_largest_size_that_is_reached_in_the_time():
    clock, sizes = Clock(), []

    def work(size: int) -> float:
        sizes.append(size)
        clock.now += 1.0 if size == 1 else 0.25 * size  # the first is slow
        return 100.0 * size

    assert measuring.rate(work, 1000, clock) == pytest.approx(400)
    assert sizes == [1, 2, 4, 8, 16]
    assert measuring.rate(work, 3, clock, lambda: 0.25) == pytest.approx(600) and sizes[-3:] == [1, 2, 3]


def test_a_measured_card_takes_the_seconds_that_were_measured(settings, models, monkeypatch):
    loaded = load_language_model("miniature:labeler", dtype="float32")
    monkeypatch.setattr(measuring, "rate", lambda work, *_: float(work(1) > 0) * 500)
    card = measuring.measure_speed(loaded, models["labeler"], TRAJECTORIES, settings)
    here = replace(models["labeler"], card=card)
    assert here.cost(1000).wall_seconds == pytest.approx(2)
    assert here.cost(0, 1000).wall_seconds == pytest.approx(2)
    small = replace(here, parameters=here.parameters // 2)
    assert small.cost(1000).wall_seconds == pytest.approx(1, rel=1e-3)


def test_a_labeler_that_is_not_here_or_too_large_is_not_loaded(models, monkeypatch):
    with pytest.raises(ModelError, match="model `nobody/nothing` has not been downloaded yet"):
        measuring.load_here(models["labeler"], "nobody/nothing", None, "auto", "cpu")
    monkeypatch.setattr(measuring, "free_bytes", lambda _: 1000)
    with pytest.raises(ModelError, match="do not fit"):
        measuring.load_here(models["labeler"], "miniature:labeler", None, "auto", "cpu")
