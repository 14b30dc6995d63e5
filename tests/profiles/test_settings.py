"""Profiles: what overrides what, and what a mistake is answered with."""

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import PROFILES, Settings, load_settings
from cpmi_dagster.rewards.reward_type import Demand


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("CPMI_PROFILE", "CPMI_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def load(tmp_path):
    """Loads the text of a profile `mine.yaml`, which extends the miniature unless it says otherwise."""

    def load(text: str, extends: str = "extends: miniature\n") -> Settings:
        path = tmp_path / "mine.yaml"
        path.write_text(f"{extends}{text}\n", encoding="utf-8")
        return load_settings(path)

    return load


@pytest.mark.parametrize("name", [path.stem for path in PROFILES.glob("*.yaml")])
def test_every_shipped_profile_is_valid(name):
    assert load_settings(name).profile == name


def test_the_miniature_is_the_default_and_the_environment_names_profile_home_and_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (load_settings().profile, load_settings().home) == ("miniature", tmp_path / ".cpmi" / "miniature")
    values = {"CPMI_PROFILE": "paper", "CPMI_HOME": str(tmp_path / "home"), "CPMI_SCORING__ROW_TOKENS": "99"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert (settings.profile, settings.home) == ("paper", tmp_path / "home")
    assert (settings.scoring.row_tokens, settings.scoring.templates) == (99, 4)


def test_a_profile_holds_only_what_differs(load):
    miniature = load_settings("miniature")
    settings = load("selection: {trajectories: 7}\nmodels: {labeler: {name: a/b}}")
    assert (settings.profile, settings.selection.trajectories) == ("mine", 7)
    assert (settings.recipes, settings.models.prover) == (miniature.recipes, miniature.models.prover)
    assert settings.models.labeler == LanguageModel(name="a/b") != miniature.models.labeler  # replaced as a whole


def test_paths_count_from_the_profile_they_stand_in(load, tmp_path):
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / "two.yaml").write_text("num_processes: 2")
    recipe = "{name: a, reward_type: mc, training: {backbone: full, accelerate: ./two.yaml}, backbone: {name: ./model}}"
    judges = "{One: a.jsonl, Two: [./b.jsonl, {path: sub/c.jsonl, benchmark: prmbench}, /elsewhere/d.jsonl]}"
    settings = load(
        "sources: {trajectories: {path: rows.jsonl}}\nmodels: {labeler: {name: ./model}}\nhome: ./results\n"
        f"recipes: [{recipe}]\nbenchmarks: {{judges: {judges}}}"
    )
    assert [source.path for source in settings.sources.trajectories] == [str(tmp_path / "rows.jsonl")]
    assert settings.models.labeler.name == settings.recipes[0].backbone.name == str(tmp_path / "model")
    assert settings.models.prover.name == "miniature:prover"
    assert settings.home == tmp_path / "results"
    assert settings.recipes[0].trained_with(settings.training).accelerate == {"num_processes": 2}
    files = [file.path for judge in settings.benchmarks.judges.values() for file in judge.files]
    assert files == [*(f"{tmp_path}/{name}" for name in ("a.jsonl", "b.jsonl", "sub/c.jsonl")), "/elsewhere/d.jsonl"]


def test_trajectories_may_be_one_source_or_several_and_have_their_earlier_name(load, monkeypatch):
    for given, places in (("{hub: a/b}", ["a/b"]), ("[{hub: a/b}, {hub: c/d}]", ["a/b", "c/d"])):
        for name in ("trajectories", "math_shepherd"):
            settings = load(f"sources: {{{name}: {given}}}")
            assert [source.place for source in settings.sources.trajectories] == places
            assert [source.place for source in settings.sources.step_truth] == ["miniature:step_truth"]
    monkeypatch.setenv("CPMI_SOURCES__MATH_SHEPHERD__PATH", "other.jsonl")
    assert [source.path for source in load_settings("miniature").sources.trajectories] == ["other.jsonl"]


MISTAKES = [
    ("scoring: {row_token: 5}", r"`scoring\.row_token` is not a setting; did you mean `scoring\.row_tokens`\?"),
    ("soft_labels: {mad: 2}", r"`soft_labels\.mad` is not a setting; `soft_labels` has clip, .*mad_factor"),
    ("templates: 2", r"`templates` is not a setting; did you mean `scoring\.templates`\?"),
    ("orchestration: {ray: 1}", r"`orchestration\.ray` was removed; several machines are Dagster's"),
    ("qqq: 1", "`qqq` is not a setting; remove it or check its spelling"),
    ("rewards: {types: [cpmi_incremntal]}", r"not a reward type \(did you mean cpmi_incremental\?\); choose from"),
    ("sources: {trajectories: {path: a, fields: {gold: b}}}", "`gold` is no field of trajectories; choose from inp"),
    ("sources: {trajectories: {path: a}, math_shepherd: {path: a}}", "which are one; remove one"),
    ("sources: {trajectories: []}", r"`sources\.trajectories` is wrong: Tuple should have at least 1 item"),
    ("sources: {references: [{source: gsm8k}]}", "exactly one of `path` and `hub`"),
    ("sources: {references: [{source: My Set, path: .}]}", "`My Set` cannot name references; use lower-case letters"),
    ("shards: 100", "`shards` is wrong"),
    ("home: ~nosuchuser/x", "a user unknown to this machine"),
    ("models: {labeler: {name: ~nosuchuser/x}}", "a user unknown to this machine"),
    ('home: "a\\0b"', "contains a NUL character"),
    ("home: null", "`home: None` is not a folder"),
    ("profile: ../x", "is not a plain file name; write one such as `mine`"),
    ("recipes: [{name: a, reward_type: mc}, {name: a, reward_type: pav}]", "the name `a` is used twice"),
    ("recipes: [{name: a, reward_type: mc}, {name: b, reward_type: mc}]", "`a` and `b` are the same"),
    ("recipes: [{name: a, reward_type: mc}, {name: A, reward_type: pav}]", "only in case"),
    ("recipes: [{name: MC, reward_type: mc, seed: 1}]", "the name `MC` is already that of another row"),
    ("recipes: [{name: a, reward_type: mcc}]", "one of the reward types mc, mc_hard"),
    ("recipes: [{name: a, reward_type: mc, training: {epoch: 2}}]", "sets `training.epoch` wrong: it is not a setting"),
    ("recipes: [{name: a, reward_type: cpmi_leave_one_out}]", "needs `cpmi_leave_one_out` among rewards.types"),
    ("training: {accelerate: {num_proceses: 2}}", "has no `num_proceses`"),
    ("training: {accelerate: ./nowhere.yaml}", "nowhere.yaml cannot be read"),
    ("training: {backbone: full, accelerate: {num_processes: 2}}\norchestration: {gpus: 2}", "set it to 1"),
    ("models: {policy: {name: a, device_map: auto}}\norchestration: {gpus: 2}", "`.*` takes GPUs that `orchestration"),
    ("benchmarks: {best_of_n: [nothing]}", "mine.yaml`: benchmarks.best_of_n: `nothing` is not among"),
    ("benchmarks: {best_of_n: [gsm8k, gsm8k]}", "`benchmarks.best_of_n` is wrong: `gsm8k` is named twice"),
    ("benchmarks: {judges: {PAV: a.jsonl}}", "is already that of another row or recipe; choose another"),
    ("benchmarks: {judges: {mc_bce: a.jsonl}}", "is already that of another row or recipe; choose another"),
    ("benchmarks: {judges: {Mine (official): a.jsonl}}", "cannot name a judge"),
    ("benchmarks: {judges: {Mine: []}}", r"benchmarks\.judges\.Mine"),
    ("recipes: []\nrewards: {types: [mc, pav]}\nmodels: {prover: null}", "models.prover is missing, and the reward"),
    ("recipes: []\nrewards: {types: [cpmi]}\nmodels: {policy: null}", "best_of_n samples candidates from it"),
    ("recipes: []\nrewards: {types: [truth]}\nsources: {step_truth: null}", "`truth` needs sources.step_truth"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_mistake_is_one_sentence(load, text, message):
    with pytest.raises(SettingsError, match=message) as caught:
        load(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; write settings as"),
        ("- a list", "holds no settings; write settings as"),
        ("seed: 1", "is missing; add it"),
        ("extends: minature", r"there is no profile `minature` \(did you mean miniature\?\); give one of files, human"),
        ("extends: ./mine.yaml", "extends itself"),
    ],
)
def test_a_profile_that_stands_on_nothing_is_named(load, text, message):
    with pytest.raises(SettingsError, match=message):
        load(text, extends="")


@pytest.mark.parametrize(
    ("variable", "value", "blamed"),
    [
        ("CPMI_SCORNG__ROW_TOKENS", "5", "CPMI_SCORNG__ROW_TOKENS is not a setting"),
        ("CPMI_SEED", "abc", "environment variable CPMI_SEED: `seed` is wrong"),
        ("CPMI_SCORING", '{"row_tokens": "abc"}', "environment variable CPMI_SCORING: `scoring.row_tokens` is wrong"),
        ("CPMI_SCORING", "{bad", "environment variable CPMI_SCORING, or one that begins with it, is not JSON"),
        ("CPMI_CACHE", "1", "environment variable `CPMI_CACHE` was removed; a home is a folder"),
    ],
)
def test_a_wrong_variable_of_the_environment_is_named(monkeypatch, variable, value, blamed):
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=blamed):
        load_settings("miniature")


def test_commands_that_are_suggested_select_the_profile_as_it_was_given(tmp_path, monkeypatch):
    copied = tmp_path / "my own.yaml"
    copied.write_text("extends: miniature\nprofile: another\n")
    assert [load_settings(name).profile_option for name in (None, "miniature", "paper")] == ["", "", " -p paper"]
    assert load_settings(copied).profile_option == f" -p '{copied}'"
    monkeypatch.setenv("CPMI_PROFILE", "paper")
    assert load_settings().profile_option == " -p paper"


@pytest.mark.parametrize(
    ("text", "demand"),
    [
        ("rewards: {types: [cpmi_merge1, gold_only]}", Demand(("marginal",), 4, policy_steps=1)),
        ("rewards: {types: [mc]}\nscoring: {conditionings: [prefix]}", Demand(("prefix",), 4, policy_steps=None)),
    ],
)
def test_a_profile_asks_for_what_its_reward_types_read(load, text, demand):
    assert load(f"recipes: []\n{text}").demand == demand


def test_a_sample_of_rollouts_is_shared_out_among_the_shards(load):
    settings = load("recipes: []\nshards: 3\nrewards: {types: [mc, cpmi]}\nrollouts: {sample: 8}")
    assert [settings.rollouts_of(shard) for shard in settings.shard_keys] == [3, 3, 2]
    assert load_settings("paper").rollouts_of("000") is None


def test_prefixes_are_completed_by_the_labeler_unless_another_model_is_named(load):
    assert load_settings("miniature").models.of("rollouts").name == "miniature:labeler"
    assert load("models: {rollouts: {name: 'miniature:prover'}}").models.of("rollouts").name == "miniature:prover"
