"""How a chat model is asked a question."""

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.errors import ModelError
from cpmi_dagster.generation.solutions import chat_prompt
from cpmi_dagster.models.language_models import load_tokenizer, model_folder

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
