"""Pieces are tokenised on their own; where that differs from the whole text, the trajectory is rejected."""

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scoring_examples import LLAMA_PATTERN, QWEN_PATTERN, byte_level_bpe, random_model, scored
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.generation.solutions import chat_prompt
from cpmi_dagster.models.tokens import piece_ids, prompt_ids
from cpmi_dagster.trajectories.templates import render_question, render_step, render_target


@given(
    question=st.text(max_size=12),
    steps=st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=8), max_size=3),
    answer=st.text(max_size=5),
    template=st.integers(0, 3),
    pattern=st.sampled_from([QWEN_PATTERN, LLAMA_PATTERN]),
)
@example("Ana has 48\n\nshells.  ", ["48 / 2 = 24.", "  So: 72!!", "$x$", "- 5"], "72.5", 1, LLAMA_PATTERN)
@settings(max_examples=80, deadline=None)
def test_pieces_give_the_ids_of_the_whole_text_for_any_steps_with_text(question, steps, answer, template, pattern):
    assume(all(step.strip() and step.strip()[0].isprintable() for step in steps))
    tokenizer = byte_level_bpe(pattern)
    pieces = [render_question(question, template), *map(render_step, steps), render_target(answer)]
    ids = piece_ids(tokenizer, pieces)
    text = render_question(question, template) + "".join(map(render_step, steps)) + render_target(answer)
    assert [token for piece in pieces for token in ids[piece]] == tokenizer.encode(text, add_special_tokens=False)


def test_a_tokenizer_that_would_change_the_text_at_a_boundary_rejects_the_trajectory_with_both_texts():
    """A SentencePiece-like tokenizer that puts a space before every text, as Llama 2's does."""
    letters = [("▁", -1.0), *((letter, -2.0) for letter in map(chr, range(33, 127))), ("\n", -2.0), ("<unk>", -9.0)]
    tokenizer = Tokenizer(models.Unigram(letters, unk_id=len(letters) - 1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    spaced = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", name_or_path="with-prefix")
    result = scored(replace(random_model("qwen3"), tokenizer=spaced))
    assert result.logprobs.is_empty()
    reason = result.rejected.filter(trajectory_id="t1")["reason"].item()
    assert "trajectory `t1`: tokenizer `with-prefix` makes" in reason
    assert r"step by step.\n 48 / 2" in reason and r"step by step.\n48 / 2" in reason


@pytest.mark.parametrize("end", ["", " </s>"])
def test_a_prompt_starts_with_all_that_the_tokenizer_puts_before_a_text(end):
    tokenizer = deepcopy(byte_level_bpe())
    tokenizer.add_special_tokens({"extra_special_tokens": ["[gMASK]", "<sop>"]})
    special = [(token, tokenizer.convert_tokens_to_ids(token)) for token in ("[gMASK]", "<sop>", "</s>")]
    single = f"[gMASK] <sop> $A{end}"
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    [ids] = prompt_ids(tokenizer, ["2 + 3"])
    assert list(ids) == tokenizer.encode("2 + 3")[: len(ids)] and len(ids) > 2
    tokenizer.chat_template = "[gMASK]<sop>{{ messages[0].content }}"
    prompt = chat_prompt("glm", tokenizer)("2 + 3")
    assert prompt_ids(tokenizer, [prompt])[0].count(special[0][1]) == 1


def test_pieces_with_other_tokens_than_their_text_are_said_once_and_scored(caplog):
    """A tokenizer whose tokens go beyond the ends of lines."""
    tokenizer = deepcopy(byte_level_bpe())
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=399, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.backend_tokenizer.train_from_iterator(
        ["24\n48 / 2 = 24\n48 / 2 = 24\nSum: 72.\nThe answer is: 7"] * 9, trainer
    )
    model = replace(random_model("qwen3"), tokenizer=tokenizer)
    for _ in range(2):
        assert "t1" in scored(model).logprobs["trajectory_id"]
    [warning] = [each.getMessage() for each in caplog.records if "joined text" in each.getMessage()]
    assert "of trajectory `t1` and" in warning
