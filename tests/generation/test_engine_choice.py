"""Which engine a profile asks for, what names it in fingerprints, where its key is shown, how a chat model is asked."""

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.errors import ModelError, SettingsError
from cpmi_dagster.generation.endpoint_engine import EndpointEngine
from cpmi_dagster.generation.solutions import chat_prompt
from cpmi_dagster.models.language_models import load_tokenizer, model_folder
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import Settings, load_settings
from cpmi_dagster.resources.models.language_models import LanguageModels

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


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(profile, monkeypatch):
    settings = profile(f"policy: {{name: org/model, {SERVER}, api_key_variable: MY_ENDPOINT_KEY}}")
    monkeypatch.setenv("MY_ENDPOINT_KEY", KEY)
    engine = LanguageModels(settings).engine("policy", 4)
    assert isinstance(engine, EndpointEngine) and engine.api_key == KEY
    assert KEY not in repr(settings) + repr(engine) + engine.identity
    monkeypatch.delenv("MY_ENDPOINT_KEY")
    with pytest.raises(SettingsError, match="variable MY_ENDPOINT_KEY"):
        LanguageModels(settings).engine("policy", 4)


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
        (f"engine: endpoint, endpoint: 'http://me:{KEY}@h/v1'", "must not contain a user, key or query"),
        (f"{SERVER}, api_key_variable: {KEY}", "not the key itself"),
    ],
)
def test_a_mistake_is_answered_in_one_sentence_without_the_key(profile, model, message):
    with pytest.raises(SettingsError, match=message) as caught:
        profile(f"policy: {{name: m, {model}}}")
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)


CHAT = (
    "{{ bos_token or '' }}{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"
)


@pytest.mark.parametrize(("by_itself", "start"), [("<|pad|> $A", "<user>"), ("$A", "<|pad|><user>")])
def test_a_chat_model_is_asked_by_its_template_without_the_start_that_engines_add(by_itself, start):
    tokenizer = load_tokenizer(model_folder("miniature:labeler"))
    with pytest.raises(ModelError, match="the tokenizer of `mine` has no chat template; leave out `chat`"):
        chat_prompt("mine", tokenizer)
    backend = tokenizer.backend_tokenizer
    backend.post_processor = TemplateProcessing(single=by_itself, special_tokens=[("<|pad|>", 1)])
    own = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<|pad|>", chat_template=CHAT)
    asked = chat_prompt("mine", own)("2 + 3?\n\nSolution: none yet")
    assert asked.startswith(f"{start}You are a careful math solver.")
    assert asked.endswith("Problem:\n2 + 3?\n\nSolution: none yet<assistant>")
