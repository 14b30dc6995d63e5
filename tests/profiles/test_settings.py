"""Profiles: what overrides what, and what a mistake is answered with."""

import re

import pytest
import yaml
from pydantic import ValidationError

from cpmi_dagster.benchmarks.registry import check_benchmark_file
from cpmi_dagster.errors import SettingsError, SourceError
from cpmi_dagster.profiles.removed import GONE
from cpmi_dagster.profiles.settings import PROFILES, load_settings
from cpmi_dagster.reports.efficiency import labeler_name
from cpmi_dagster.reports.paper import load_paper_tables
from cpmi_dagster.rewards.reward_type import Demand


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("CPMI_PROFILE", "CPMI_HOME"):
        monkeypatch.delenv(name, raising=False)


def write(tmp_path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", [path.stem for path in PROFILES.glob("*.yaml")])
def test_every_shipped_profile_is_valid(name):
    assert load_settings(name).profile == name


@pytest.mark.parametrize("name", ["paper-qwen2.5-1.5b", "paper-llama-3.2-1b"])
def test_the_labelers_rows_are_those_of_the_paper(name):
    settings = load_settings(name)
    rows = [f"{labeler_name(settings.models.labeler.name)}, {method}" for method in ("MC", "CPMI-based")]
    assert set(rows) <= set(load_paper_tables()["labelers"].rows)
    assert settings.models.of("rollouts") == settings.models.labeler
    assert settings.models.policy.name == settings.models.backbone.name == "Qwen/Qwen3-4B-Base"
    assert [recipe.reward_type for recipe in settings.recipes] == ["mc", "cpmi_merge1"]
    assert settings.home.name == name


def test_a_small_labeler_can_be_tried_on_a_laptop():
    settings = load_settings("miniature-small-labeler")
    assert settings.models.labeler.name == settings.models.of("rollouts").name == "miniature:prover"
    assert settings.models.policy.name == "miniature:labeler"
    assert settings.recipe_names == ["mc_bce", "cpmi_merge1_bce", "truth_bce", "uniform_bce"]


def test_the_paper_asks_for_nothing_that_needs_a_file_of_ones_own():
    benchmarks = load_settings("paper").sources.benchmarks
    assert "mmlu_stem" in benchmarks
    assert not any(source.path for source in benchmarks.values())


@pytest.mark.parametrize(
    ("name", "hint"),
    [("logiqa2", "csitfun/LogiQA2.0"), ("logicnli", "omnilabNLP/LogicNLI"), ("gsm8k", "correct the path")],
)
def test_a_benchmark_file_that_is_missing_says_where_to_get_it(tmp_path, name, hint):
    with pytest.raises(SourceError, match=f"the benchmark `{name}` is not at .*{hint}"):
        check_benchmark_file(name, str(tmp_path / "none.jsonl"))
    check_benchmark_file(name, str(tmp_path))
    check_benchmark_file(name, "miniature:gsm8k_test")
    check_benchmark_file(name, None)


def test_the_miniature_is_the_default_and_keeps_its_home_beside_the_caller(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load_settings()
    assert settings.profile == "miniature"
    assert settings.home == tmp_path / ".cpmi" / "miniature"


def test_the_environment_names_profile_and_home(tmp_path, monkeypatch):
    monkeypatch.setenv("CPMI_PROFILE", "paper")
    monkeypatch.setenv("CPMI_HOME", str(tmp_path))
    settings = load_settings()
    assert (settings.profile, settings.home) == ("paper", tmp_path)


def test_the_environment_overrides_a_single_setting(monkeypatch):
    monkeypatch.setenv("CPMI_SCORING__ROW_TOKENS", "99")
    settings = load_settings("miniature")
    assert settings.scoring.row_tokens == 99
    assert settings.scoring.templates == 4


def test_a_profile_holds_only_what_differs(tmp_path):
    settings = load_settings(write(tmp_path, "extends: miniature\nselection: {trajectories: 7}\n"))
    assert settings.selection.trajectories == 7
    assert settings.recipes == load_settings("miniature").recipes
    assert settings.profile == "mine"


def test_trajectories_may_have_their_earlier_name(tmp_path, monkeypatch):
    for name in ("trajectories", "math_shepherd"):
        text = f"extends: miniature\nsources: {{{name}: {{path: ./rows.jsonl, steps: line}}}}\n"
        (source,) = load_settings(write(tmp_path, text)).sources.trajectories
        assert (source.path, source.steps) == (str(tmp_path / "rows.jsonl"), "line")
    with pytest.raises(SettingsError, match="has `math_shepherd` and `trajectories`, which are one; remove one"):
        load_settings(write(tmp_path, "sources: {trajectories: {path: a}, math_shepherd: {path: a}}\n"))
    monkeypatch.setenv("CPMI_SOURCES__MATH_SHEPHERD__PATH", "other.jsonl")
    assert [source.path for source in load_settings("miniature").sources.trajectories] == ["other.jsonl"]


def test_paths_count_from_the_profile_they_stand_in(tmp_path):
    (tmp_path / "rows.jsonl").touch()
    text = "extends: miniature\nsources: {math_shepherd: {path: rows.jsonl}}\nmodels: {labeler: {name: ./model}}\n"
    settings = load_settings(write(tmp_path, text))
    assert [source.path for source in settings.sources.trajectories] == [str(tmp_path / "rows.jsonl")]
    assert settings.models.labeler.name == str(tmp_path / "model")
    assert settings.models.prover.name == "miniature:prover"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("scoring: {row_token: 5}", r"`scoring\.row_token` is not a setting; did you mean `scoring\.row_tokens`\?"),
        ("soft_labels: {mad: 2}", r"`soft_labels\.mad` is not a setting; `soft_labels` has clip, .*mad_factor"),
        ("templates: 2", r"`templates` is not a setting; did you mean `scoring\.templates`\?"),
        ("rewards: {types: [cpmi_incremntal]}", r"not a reward type \(did you mean cpmi_incremental\?\); choose from"),
        ("reward: {types: [cpmi]}", r"`reward` is not a setting; did you mean `rewards`\?"),
        (
            "sources: {trajectories: {path: a, fields: {gold: b}}}",
            "`gold` is no field of trajectories; choose from inp",
        ),
        ("softlabels: {}", r"`softlabels` is not a setting; did you mean `soft_labels`\?"),
        ("qqq: 1", "`qqq` is not a setting; remove it or check its spelling"),
    ],
)
def test_an_unknown_key_is_named_beside_what_it_could_be(tmp_path, key, message):
    with pytest.raises(SettingsError, match=message):
        load_settings(write(tmp_path, f"extends: miniature\n{key}\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: miniature\nshards: 100\n", "`shards` is wrong"),
        ("extends: miniature\nsources: {references: [{source: gsm8k}]}\n", "exactly one of `path` and `hub`"),
        ("- a list\n", "holds no settings; write settings as"),
        ("", "is empty; write settings as"),
        ("a: [1\n", "is not valid YAML"),
        ("seed: 1\n", "is missing; add it"),
        ("extends: nowhere\n", "there is no profile `nowhere`"),
        ("extends: minature\n", r"there is no profile `minature` \(did you mean miniature\?\)"),
        ("extends: miniature\nrecipes: 5\n", "`recipes` is wrong"),
        ("5: 6\n", "the key in line 1 is not text"),
        ("seed: 1\nseed: 2\n", "line 2 has the key `seed` again"),
        ("sources: &a {math_shepherd: *a}\n", "line 1 refers to itself"),
        ("extends: miniature\nhome: ~nosuchuser/x\n", "a user unknown to this machine"),
        ("extends: miniature\nmodels: {labeler: {name: ~nosuchuser/x}}\n", "a user unknown to this machine"),
        ("extends: miniature\nbenchmarks: {judges: {a: ~nosuchuser/x}}\n", "a user unknown to this machine"),
        ('extends: miniature\nhome: "a\\0b"\n', "contains a NUL character"),
        ("extends: miniature\nhome: 5\n", "`home: 5` is not a folder"),
        ("extends: miniature\nhome: null\n", "`home: None` is not a folder"),
        ('extends: miniature\nhome: ""\n', "`home: ''` is not a folder"),
        (
            "extends: miniature\nsources: {references: [{source: given, path: .}]}\n",
            "`sources.references.0.source` is wrong: `given` cannot name references",
        ),
        (
            "extends: miniature\nsources: {references: [{source: My Set, path: .}]}\n",
            "`My Set` cannot name references; use lower-case letters",
        ),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(write(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../x", "''", ".", "..", "' '", "5", "null", '"a\\0b"', "a" * 201])
def test_a_profile_is_named_as_a_folder_can_be(tmp_path, name):
    with pytest.raises(SettingsError, match="is not a plain file name; write one such as `mine`"):
        load_settings(write(tmp_path, f"extends: miniature\nprofile: {name}\n"))


@pytest.mark.parametrize(
    ("variable", "value", "blamed"),
    [
        ("CPMI_SEED", "abc", "environment variable CPMI_SEED: `seed` is wrong"),
        ("CPMI_SCORING__ROW_TOKENS", "abc", "environment variable CPMI_SCORING__ROW_TOKENS: `scoring.row_tokens`"),
        ("CPMI_SCORING", '{"row_tokens": "abc"}', "environment variable CPMI_SCORING: `scoring.row_tokens` is wrong"),
        ("CPMI_SCORING", "{bad", "environment variable CPMI_SCORING, or one that begins with it, is not JSON"),
        ("CPMI_MODELS__LABELER", "{bad", "environment variable CPMI_MODELS, or one that begins with it, is not JSON"),
    ],
)
def test_a_wrong_variable_of_the_environment_is_named(monkeypatch, variable, value, blamed):
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=blamed):
        load_settings("miniature")


def test_an_unknown_profile_lists_those_there_are():
    shipped = "files, human-steps, human-steps-0.5b, human-steps-1.5b, human-steps-k4, miniature, miniature-all"
    with pytest.raises(SettingsError, match=f"give one of {shipped}"):
        load_settings("nothing")


def test_settings_never_change():
    settings = load_settings("miniature")
    with pytest.raises(ValidationError):
        settings.scoring.row_tokens = 1


def test_an_unknown_recipe_lists_those_there_are():
    with pytest.raises(SettingsError, match="it has mc_bce"):
        load_settings("miniature").recipe("nothing")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recipes: [{name: a, reward_type: mc}, {name: a, reward_type: pav}]", "the name `a` is used twice"),
        ("recipes: [{name: a, reward_type: mc}, {name: b, reward_type: mc}]", "`a` and `b` are the same"),
        ("recipes: [{name: a, reward_type: mc}, {name: A, reward_type: pav}]", "only in case"),
        ("recipes: [{name: MC, reward_type: mc, seed: 1}]", "the name `MC` is already that of another row"),
        ("recipes: [{name: a, reward_type: mcc}]", "one of the reward types mc, mc_hard"),
        (
            "recipes: [{name: a, reward_type: mc, training: {epoch: 2}}]",
            "sets `training.epoch` wrong: it is not a setting",
        ),
        ("training: {epochs: .inf}", "finite number"),
        ("training: {accelerate: {num_proceses: 2}}", "has no `num_proceses`"),
        ("training: {accelerate: {num_processes: 0}}", "must be at least 1"),
        ("training: {accelerate: {num_machines: 2}}", "trained on one machine"),
        ("training: {accelerate: ./nowhere.yaml}", "nowhere.yaml cannot be read"),
        ("training: {backbone: full, accelerate: {num_processes: 2}}\norchestration: {gpus: 2}", "set it to 1"),
        ("recipes: [{name: a, reward_type: cpmi_leave_one_out}]", "needs `cpmi_leave_one_out` among rewards.types"),
        (f"recipes: [{{name: {'a' * 201}, reward_type: mc}}]", "at most 200 characters"),
        ("benchmarks: {best_of_n: [nothing]}", "mine.yaml`: benchmarks.best_of_n: `nothing` is not among"),
        ("benchmarks: {best_of_n: [gsm8k, gsm8k]}", "`benchmarks.best_of_n` is wrong: `gsm8k` is named twice"),
    ],
)
def test_parts_that_do_not_fit_are_refused_before_anything_runs(tmp_path, text, message):
    with pytest.raises(SettingsError, match=message):
        load_settings(write(tmp_path, f"extends: miniature\n{text}\n"))


def test_a_mistyped_variable_is_named(monkeypatch):
    monkeypatch.setenv("CPMI_SCORNG__ROW_TOKENS", "5")
    with pytest.raises(SettingsError, match="CPMI_SCORNG__ROW_TOKENS is not a setting"):
        load_settings("miniature")


@pytest.mark.parametrize("name", GONE)
def test_what_was_removed_is_named_with_what_does_its_work(tmp_path, monkeypatch, name):
    section, _, setting = name.rpartition(".")
    if section:
        text = f"extends: miniature\n{section}: {{{setting}: 1}}\n"
    else:
        text = "extends: miniature\n"
        monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError, match=re.escape(f"`{name}` was removed; {GONE[name]}")):
        load_settings(write(tmp_path, text))


def test_a_folder_named_like_a_recipe_changes_nothing(tmp_path):
    (tmp_path / "mc_bce").mkdir()
    assert "mc_bce" in load_settings(write(tmp_path, "extends: miniature\n")).recipe_names


def test_a_home_in_a_profile_counts_from_the_profile(tmp_path):
    assert load_settings(write(tmp_path, "extends: miniature\nhome: ./results\n")).home == tmp_path / "results"


def test_profiles_that_extend_each_other_are_refused(tmp_path):
    for name, parent in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"extends: {parent}.yaml\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="extends itself"):
        load_settings(tmp_path / "a.yaml")


@pytest.mark.parametrize("values", [{"device_map": "auto"}, {"engine": "vllm"}])
def test_one_process_a_gpu_and_a_model_over_all_gpus_do_not_go_together(tmp_path, values):
    model = {"name": "miniature:labeler", **values}
    profile = tmp_path / "mine.yaml"
    profile.write_text(
        yaml.safe_dump({"extends": "miniature", "models": {"policy": model}, "orchestration": {"gpus": 2}})
    )
    with pytest.raises(SettingsError, match=r"models.policy: `.*` takes GPUs that `orchestration.gpus: 2` gives"):
        load_settings(profile)


def test_files_that_a_recipe_names_are_looked_for_beside_the_profile(tmp_path):
    (tmp_path / "two.yaml").write_text("num_processes: 2")
    profile = tmp_path / "mine.yaml"
    recipe = "{name: a, reward_type: mc, training: {backbone: full, accelerate: ./two.yaml}, backbone: {name: ./model}}"
    profile.write_text(f"extends: miniature\nrecipes: [{recipe}]")
    settings = load_settings(profile)
    (recipe,) = settings.recipes
    assert recipe.trained_with(settings.training).accelerate == {"num_processes": 2}
    assert recipe.backbone.name == str(tmp_path / "model")


def test_a_recipe_changes_single_settings_of_its_adapters(tmp_path):
    profile = tmp_path / "mine.yaml"
    profile.write_text(
        "extends: miniature\ntraining: {backbone: full, lora: {rank: 8, alpha: 64}}\n"
        "recipes: [{name: a, reward_type: mc, training: {lora: {rank: 4}}}]"
    )
    settings = load_settings(profile)
    lora = settings.recipes[0].trained_with(settings.training).lora
    assert (lora.rank, lora.alpha) == (4, 64)


def test_commands_that_are_suggested_select_the_profile_as_it_was_given(tmp_path, monkeypatch):
    copied = tmp_path / "my own.yaml"
    copied.write_text("extends: miniature\nprofile: another\n")
    assert [load_settings(name).profile_option for name in (None, "miniature", "paper")] == ["", "", " -p paper"]
    assert load_settings(copied).profile_option == f" -p '{copied}'"
    monkeypatch.setenv("CPMI_PROFILE", "paper")
    assert load_settings().profile_option == " -p paper"


def test_a_profile_asks_for_what_its_reward_types_read(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text("extends: miniature\nrewards: {types: [cpmi_merge1, gold_only]}\nrecipes: []\n")
    assert load_settings(profile).demand == Demand(("marginal",), 4, policy_steps=1)


def test_conditionings_may_be_asked_for_beside_those_of_the_reward_types(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text("extends: miniature\nrewards: {types: [mc]}\nrecipes: []\nscoring: {conditionings: [prefix]}\n")
    assert load_settings(profile).demand == Demand(("prefix",), 4, policy_steps=None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rewards: {types: [judge_token]}", "`judge_token` is not a reward type; choose from mc, mc_hard, pav, cpmi"),
        ("rewards: {types: [mc, pav]}\nmodels: {prover: null}", "models.prover is missing, and the reward type `pav`"),
        ("rewards: {types: [cpmi]}\nmodels: {policy: null}", "benchmarks.best_of_n samples candidates from it"),
        (
            "rewards: {types: [truth]}\nsources: {step_truth: null}",
            "`truth` needs sources.step_truth; name it, or remo",
        ),
    ],
)
def test_a_model_or_a_source_that_is_needed_and_not_named_is_missed_when_the_profile_is_read(tmp_path, text, complaint):
    profile = tmp_path / "p.yaml"
    profile.write_text(f"extends: miniature\nrecipes: []\n{text}\n")
    with pytest.raises(SettingsError, match=complaint):
        load_settings(profile)


def test_a_sample_of_rollouts_is_shared_out_among_the_shards(tmp_path):
    text = "extends: miniature\nrecipes: []\nshards: 3\nrewards: {types: [mc, pav, cpmi]}\nrollouts: {sample: 8}\n"
    settings = load_settings(write(tmp_path, text))
    assert [settings.rollouts_of(shard) for shard in settings.shard_keys] == [3, 3, 2]
    assert load_settings("paper").rollouts_of("000") is None


def test_solutions_that_people_have_judged_are_labelled_and_no_model_is_trained():
    settings = load_settings("human-steps")
    assert settings.recipes == ()
    assert settings.sources.step_truth == settings.sources.trajectories
    inputs = ("final_answer", "step_texts")
    assert settings.demand == Demand(("marginal", "incremental", "prefix"), 4, policy_steps=None, inputs=inputs)


def test_one_source_or_several_may_hold_the_trajectories(tmp_path):
    one, two = ("{hub: a/b}", "[{hub: a/b}, {hub: c/d}]")
    for given, places in ((one, ["a/b"]), (two, ["a/b", "c/d"])):
        settings = load_settings(write(tmp_path, f"extends: miniature\nsources: {{math_shepherd: {given}}}\n"))
        assert [source.place for source in settings.sources.trajectories] == places
        assert [source.place for source in settings.sources.step_truth] == ["miniature:step_truth"]
    with pytest.raises(SettingsError, match=r"`sources\.trajectories` is wrong: Tuple should have at least 1 item"):
        load_settings(write(tmp_path, "extends: miniature\nsources: {math_shepherd: []}\n"))


def test_models_that_nothing_asks_for_may_be_left_out(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "extends: miniature\nrecipes: []\nrewards: {types: [cpmi]}\nbenchmarks: {best_of_n: []}\n"
        "models: {policy: null, prover: null}\n"
    )
    assert load_settings(profile).models.policy is None


def test_prefixes_are_completed_by_the_labeler_unless_another_model_is_named(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text("extends: miniature\nmodels: {rollouts: {name: 'miniature:prover'}}\n")
    assert load_settings("miniature").models.of("rollouts").name == "miniature:labeler"
    assert load_settings(profile).models.of("rollouts").name == "miniature:prover"
