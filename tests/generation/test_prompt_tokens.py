from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from cpmi_dagster.models.tokens import prompt_ids


def test_prompts_keep_their_order_and_start_with_a_bos_where_the_tokenizer_adds_one(tokenizer):
    from transformers import PreTrainedTokenizerFast

    bare = [tuple(tokenizer(text)["input_ids"]) for text in ("ab", "", "ab")]
    assert prompt_ids(tokenizer, ["ab", "", "ab"]) == bare
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(single="<pad> $A", special_tokens=[("<pad>", 1)])
    adds_bos = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<pad>", eos_token="<eos>")
    assert prompt_ids(adds_bos, ["ab", "", "ab"]) == [(1, *ids) for ids in bare]
