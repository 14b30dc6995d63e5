"""Pieces are tokenised on their own; where that differs from the whole text, the trajectory is rejected."""

from dataclasses import replace

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scoring_examples import LLAMA_PATTERN, QWEN_PATTERN, byte_level_bpe, random_model, scored
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from cpmi_dagster.models.tokens import piece_ids
from cpmi_dagster.trajectories.templates import render_context, render_question, render_step, render_target


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
    text = render_context(question, steps, template) + render_target(answer)
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
