"""Which engine a profile asks for, what names it in fingerprints, and that no key gets anywhere near them."""

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


def test_a_model_is_sampled_by_transformers_by_a_server_or_by_vllm_which_need_no_weights_here(profile, monkeypatch):
    models = LanguageModels(
        profile(
            f"policy: {{name: org/unknown, {SERVER}}}, prover: {{name: 'miniature:prover', engine: vllm}}, "
            "labeler: {name: 'miniature:labeler'}"
        )
    )
    assert isinstance(models.engine("labeler", 4), TransformersEngine)
    assert models.engine("labeler", 4).identity == models.identity("labeler") == models.load("labeler").identity
    monkeypatch.delattr(language_models, "load_language_model")
    assert isinstance(models.engine("policy", 4), EndpointEngine)
    assert isinstance(models.engine("prover", 4), VllmEngine)


def test_identities_name_model_revision_and_who_samples(profile):
    models = LanguageModels(
        profile(
            f"labeler: {{name: 'miniature:labeler', {SERVER}}}, "
            f"policy: {{name: org/model, revision: 0123456789abcdef, {SERVER}, served_name: mine}}, "
            f"prover: {{name: 'miniature:labeler', engine: vllm}}, backbone: {{name: 'miniature:labeler'}}"
        )
    )
    weights = models.identity("backbone")
    assert weights.startswith("miniature:labeler@") and weights == models.load("labeler").identity
    assert models.identity("labeler") == models.engine("labeler", 4).identity == f"{weights}@127.0.0.1:8000/v1"
    assert models.identity("policy") == "org/model@0123456789ab@127.0.0.1:8000/v1#mine"
    assert models.identity("prover") == f"{weights}@vllm"


@pytest.mark.parametrize("value", [KEY, "", "two\nlines", "clé"])
def test_the_key_comes_from_the_environment_and_is_shown_nowhere(profile, monkeypatch, value):
    settings = profile(f"policy: {{name: org/model, {SERVER}, api_key_variable: MY_ENDPOINT_KEY}}")
    monkeypatch.setenv("MY_ENDPOINT_KEY", value)
    models = LanguageModels(settings)
    if value == KEY:
        engine = models.engine("policy", 4)
        assert isinstance(engine, EndpointEngine) and engine.api_key == KEY
        assert KEY not in repr(settings) + repr(engine) + engine.identity
    else:
        with pytest.raises(SettingsError, match="variable MY_ENDPOINT_KEY") as caught:
            models.engine("policy", 4)
        assert not value or value not in str(caught.value)


def test_how_an_endpoint_is_reached_is_in_no_fingerprint():
    reached = {"timeout_seconds": 1, "requests_in_flight": 2, "max_retries": 3, "api_key_variable": "KEY"}
    plain, other = (
        LanguageModel(name="m", engine="endpoint", endpoint=endpoint, **more)
        for endpoint, more in (("http://h/v1", {}), ("http://h/v1/", reached))
    )
    assert plain.model_dump() == other.model_dump()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("engine: endpoint", "go together"),
        ("engine: endpoint, endpoint: 'h:8000/v1'", "is a URL such as"),
        (f"engine: endpoint, endpoint: 'http://me:{KEY}@h/v1'", "must not contain a user, key or query"),
        ("engine: endpoint, endpoint: 'http://h/v1/completions'", "leave `/completions` out"),
        (f"{SERVER}, api_key_variable: {KEY}", "not the key itself"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence_without_the_key(profile, model, message):
    with pytest.raises(SettingsError, match=message) as caught:
        profile(f"policy: {{name: m, {model}}}")
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)
