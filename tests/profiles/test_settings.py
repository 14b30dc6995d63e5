"""Profiles: what overrides what, and what a mistake is answered with."""

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.profile_files import PROFILES
from cpmi_dagster.profiles.settings import Settings, load_settings


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


def test_trajectories_may_be_one_source_or_several(load):
    for given, places in (("{hub: a/b}", ["a/b"]), ("[{hub: a/b}, {hub: c/d}]", ["a/b", "c/d"])):
        settings = load(f"sources: {{trajectories: {given}}}")
        assert [source.place for source in settings.sources.trajectories] == places
        assert [source.place for source in settings.sources.step_truth] == ["miniature:step_truth"]


MISTAKES = [
    ("seed: 1\nseed: 2", "line 3 has the key `seed` again"),
    ("seed: [1", "is not valid YAML"),
    ("scoring: {row_token: 5}", r"`scoring\.row_token` is not a setting; did you mean `scoring\.row_tokens`\?"),
    ("rewards: {types: [cpmi_incremntal]}", r"not a reward type \(did you mean cpmi_incremental\?\); choose from"),
    ("profile: ../x", "is not a plain file name; write one such as `mine`"),
    ("recipes: [{name: a, reward_type: mc}, {name: b, reward_type: mc}]", "`a` and `b` are the same"),
    ("recipes: [{name: a, reward_type: mc, training: {epoch: 2}}]", "sets `training.epoch` wrong: it is not a setting"),
    ("training: {backbone: full, accelerate: {num_processes: 2}}\norchestration: {gpus: 2}", "set it to 1"),
    ("benchmarks: {best_of_n: [nothing]}", "mine.yaml`: benchmarks.best_of_n: `nothing` is not among"),
    ("benchmarks: {judges: {mc_bce: a.jsonl}}", "is already that of another row or recipe; choose another"),
    ("recipes: []\nrewards: {types: [mc, pav]}\nmodels: {prover: null}", "models.prover is missing, and the reward"),
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
        ("CPMI_SCORING", '{"row_tokens": "abc"}', "environment variable CPMI_SCORING: `scoring.row_tokens` is wrong"),
    ],
)
def test_a_wrong_variable_of_the_environment_is_named(monkeypatch, variable, value, blamed):
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=blamed):
        load_settings("miniature")


def test_a_sample_of_rollouts_is_shared_out_among_the_shards(load):
    settings = load("recipes: []\nshards: 3\nrewards: {types: [mc, cpmi]}\nrollouts: {sample: 8}")
    assert [settings.rollouts_of(shard) for shard in settings.shard_keys] == [3, 3, 2]
    assert load_settings("paper").rollouts_of("000") is None


@pytest.mark.parametrize("name", ["100%", "a*", "line\nfeed"])
def test_a_home_that_a_library_would_take_for_a_pattern_is_refused(tmp_path, name):
    with pytest.raises(SettingsError, match=r"contains the character .*; set CPMI_HOME to a folder without it"):
        load_settings("miniature", tmp_path / name)


def test_an_address_of_a_store_is_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("CPMI_HOME", "s3://KEY:SECRET@bucket/home")
    with pytest.raises(SettingsError, match="the home is an address; give a folder") as caught:
        load_settings("miniature")
    assert "SECRET" not in str(caught.value)
