"""Which engine a profile asks for, what names it in fingerprints, and that no key gets anywhere near them."""

import json

import pytest

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.transformers_engine import TransformersEngine
from cpmi_dagster.generation.vllm_engine import VllmEngine
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.workers import language_models
from cpmi_dagster.resources.workers.language_models import LanguageModels

KEY = "sk-very-secret"
SERVER = "engine: endpoint, endpoint: 'http://127.0.0.1:8000/v1/'"


@pytest.fixture
def profile(tmp_path):
    """Settings of the miniature with other models."""

    def build(models: str) -> Settings:
        path = tmp_path / "mine.yaml"
        path.write_text(f"extends: miniature\nmodels: {{{models}}}\n", encoding="utf-8")
        return load_settings(path, tmp_path)

    return build


@pytest.fixture
def no_weights(monkeypatch):
    def load(*arguments: object) -> None:
        raise AssertionError(f"loaded {arguments}")

    monkeypatch.setattr(language_models, "load_language_model", load)


def test_transformers_is_the_default_and_its_identity_is_the_models(profile):
    models = LanguageModels(profile("policy: {name: 'miniature:prover'}"))
    assert isinstance(models.engine("policy", 4), TransformersEngine)
    assert models.engine("policy", 4).identity == models.identity("policy") == models.load("policy").identity


def test_an_endpoint_samples_without_any_weights_here(profile, no_weights):
    models = LanguageModels(
        profile(f"policy: {{name: org/unknown, {SERVER}}}, prover: {{name: 'miniature:prover', engine: vllm}}")
    )
    assert isinstance(models.engine("policy", 4), EndpointEngine)
    assert isinstance(models.engine("prover", 4), VllmEngine)
    assert models.engine("prover", 4) is models.engine("prover", 8)


def test_identities_name_model_revision_and_who_samples(profile):
    models = LanguageModels(
        profile(
            f"labeler: {{name: 'miniature:labeler', {SERVER}}}, "
            f"policy: {{name: org/model, revision: 0123456789abcdef, {SERVER}, served_name: mine}}, "
            f"prover: {{name: org/model, {SERVER}}}, backbone: {{name: 'miniature:labeler', engine: vllm}}"
        )
    )
    weights = models.identity("backbone")
    assert weights.startswith("miniature:labeler@") and weights == models.load("labeler").identity
    assert models.identity("labeler") == f"{weights}@127.0.0.1:8000/v1"
    assert models.identity("policy") == "org/model@0123456789ab@127.0.0.1:8000/v1#mine"
    assert models.identity("prover") == models.engine("prover", 4).identity == "org/model@127.0.0.1:8000/v1"
    vllm = LanguageModels(profile("prover: {name: 'miniature:labeler', engine: vllm}"))
    assert vllm.identity("prover") == f"{weights}@vllm"


def test_roles_with_the_same_weights_share_them_whoever_samples(profile):
    same = "{name: 'miniature:labeler', dtype: float32"
    models = LanguageModels(profile(f"labeler: {same}, {SERVER}}}, backbone: {same}}}"))
    assert models.load("labeler") is models.load("backbone")


def test_the_key_comes_from_the_environment_and_stays_out_of_every_dump(profile, monkeypatch):
    settings = profile(f"policy: {{name: org/model, {SERVER}, api_key_variable: MY_ENDPOINT_KEY}}")
    monkeypatch.setenv("MY_ENDPOINT_KEY", KEY)
    engine = LanguageModels(settings).engine("policy", 4)
    assert isinstance(engine, EndpointEngine) and engine.api_key == KEY
    assert KEY not in repr(settings) + repr(engine) + engine.identity


@pytest.mark.parametrize("value", ["", "two\nlines", "clé"])
def test_a_missing_or_odd_key_names_its_variable_and_not_itself(profile, monkeypatch, value):
    settings = profile(f"policy: {{name: org/model, {SERVER}, api_key_variable: MY_ENDPOINT_KEY}}")
    monkeypatch.setenv("MY_ENDPOINT_KEY", value)
    with pytest.raises(SettingsError, match="variable MY_ENDPOINT_KEY") as caught:
        LanguageModels(settings).engine("policy", 4)
    assert not value or value not in str(caught.value)


def test_how_an_endpoint_is_reached_is_in_no_fingerprint():
    reached = {"timeout_seconds": 1, "requests_in_flight": 2, "max_retries": 3, "api_key_variable": "KEY"}
    plain = LanguageModel(name="m", engine="endpoint", endpoint="http://h/v1")
    assert (
        LanguageModel(name="m", engine="endpoint", endpoint="http://h/v1/", **reached).model_dump()
        == plain.model_dump()
    )
    assert json.loads(plain.model_dump_json())["endpoint"] == "http://h/v1"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("engine: endpoint", "go together"),
        ("endpoint: 'http://h/v1'", "go together"),
        ("engine: endpoint, endpoint: 'h:8000/v1'", "is a URL such as"),
        ("engine: endpoint, endpoint: 'http://h:99999/v1'", "out of range"),
        (f"engine: endpoint, endpoint: 'http://me:{KEY}@h/v1'", "must not contain a user, key or query"),
        (f"engine: endpoint, endpoint: 'http://h/v1?key={KEY}'", "must not contain a user, key or query"),
        ("engine: endpoint, endpoint: 'http://h/v1/completions'", "leave `/completions` out"),
        (f"{SERVER}, api_key_variable: {KEY}", "not the key itself"),
        (f"{SERVER}, api_key_variable: CPMI_KEY", "the name of an environment variable"),
        ("engine: llama", "engine"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence_without_the_key(profile, model, message):
    with pytest.raises(SettingsError, match=message) as caught:
        profile(f"policy: {{name: m, {model}}}")
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)
