"""Pieces are tokenised on their own; where that differs from the whole string is stated here."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scoring_examples import LLAMA_PATTERN, QWEN_PATTERN, byte_level_bpe
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.errors import ScoringError
from cpmi_dagster.models.tokens import check_boundaries, piece_ids, start_ids
from cpmi_dagster.scoring.logprobs import answer_logprobs
from cpmi_dagster.scoring.settings import Scoring
from cpmi_dagster.trajectories.templates import render_context, render_question, render_step, render_target


def joined(tokenizer, question, steps, answer, template=0):
    pieces = [render_question(question, template), *map(render_step, steps), render_target(answer)]
    ids = piece_ids(tokenizer, pieces)
    return [token for piece in pieces for token in ids[piece]]


def whole(tokenizer, question, steps, answer, template=0):
    text = render_context(question, steps, template) + render_target(answer)
    return tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("pattern", [QWEN_PATTERN, LLAMA_PATTERN], ids=["qwen", "llama3"])
@pytest.mark.parametrize("template", range(4))
def test_pieces_give_the_ids_of_the_whole_string_for_byte_level_bpe(pattern, template):
    steps = ["48 / 2 = 24.", "  So: 72!!", "\nThe answer is: 72\n", "$x$", "- 5"]
    arguments = (byte_level_bpe(pattern), "Ana has 48\n\nshells.  ", steps, "72.5", template)
    assert joined(*arguments) == whole(*arguments)


@given(
    question=st.text(max_size=12),
    steps=st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=8), max_size=3),
    answer=st.text(max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_pieces_give_the_ids_of_the_whole_string_for_any_steps_with_text(question, steps, answer):
    assume(all(step.strip() and step.strip()[0].isprintable() for step in steps))
    tokenizer = byte_level_bpe()
    assert joined(tokenizer, question, steps, answer) == whole(tokenizer, question, steps, answer)


def test_bos_stands_first_only_where_the_tokenizer_adds_it():
    assert start_ids(byte_level_bpe(bos=True)) == (0,)
    assert start_ids(byte_level_bpe(bos=False)) == ()


def with_dummy_prefix():
    """A SentencePiece-like tokenizer that puts a space before every text, as Llama 2's does."""
    letters = [("▁", -1.0), *((letter, -2.0) for letter in map(chr, range(33, 127))), ("\n", -2.0), ("<unk>", -9.0)]
    tokenizer = Tokenizer(models.Unigram(letters, unk_id=len(letters) - 1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", name_or_path="with-dummy-prefix")


def test_a_tokenizer_that_would_change_the_text_at_a_boundary_is_named_with_the_strings():
    pieces = ["How many?\n", "1 + 1 = 2\n", "The answer is: 2"]
    ids = piece_ids(with_dummy_prefix(), pieces)
    with pytest.raises(ScoringError) as refusal:
        check_boundaries(with_dummy_prefix(), pieces, [ids[piece] for piece in pieces])
    assert "tokenizer `with-dummy-prefix` makes" in str(refusal.value)
    assert r"'How many?\n 1 + 1 = 2" in str(refusal.value)
    assert r"'How many?\n1 + 1 = 2" in str(refusal.value)


def test_blank_steps_are_the_same_text_in_other_tokens():
    tokenizer, pieces = byte_level_bpe(), ["How many?\n", "\n", "\n", "The answer is: 2"]
    ids = piece_ids(tokenizer, pieces)
    check_boundaries(tokenizer, pieces, [ids[piece] for piece in pieces])


def test_trajectories_of_such_a_tokenizer_are_rejected_with_their_id(qwen3, trajectories, negatives):
    model = replace(qwen3, tokenizer=with_dummy_prefix())
    result = answer_logprobs(trajectories, negatives, model, Scoring(templates=1))
    assert result.logprobs.is_empty()
    assert set(result.rejected["trajectory_id"]) == set(trajectories["trajectory_id"])
    assert "trajectory `t1`: tokenizer `with-dummy-prefix` makes" in result.rejected["reason"][0]
