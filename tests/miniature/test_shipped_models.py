"""The packaged tokenizer and language models: complete, small, and with the half knowledge that the demo needs."""

import json
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models.language_models import load_language_model
from scripts.miniature_models.facts import early_probabilities, free_controls, sample, true_steps
from scripts.miniature_models.tokenizer import EOS_ID, PAD_ID, build_tokenizer
from scripts.miniature_world.world import world_rows

pytestmark = pytest.mark.slow

TOKENIZER: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(MODEL_FOLDERS["labeler"])


@given(st.text(), st.integers(0, 10**12))
def test_any_text_survives_the_tokenizer_and_every_digit_is_a_token(text, number):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text
    assert len(TOKENIZER.encode(str(number))) == len(str(number))


@given(st.lists(st.text().map(lambda text: text.strip() + "\n")))
def test_lines_tokenised_one_by_one_are_the_text_tokenised_whole(lines):
    assert [token for line in lines for token in TOKENIZER.encode(line)] == TOKENIZER.encode("".join(lines))


def test_the_packaged_tokenizer_is_the_one_that_the_code_trains():
    assert TOKENIZER.bos_token is None
    assert (TOKENIZER.eos_token_id, TOKENIZER.pad_token_id) == (EOS_ID, PAD_ID)
    trained, packaged = (json.loads(each.backend_tokenizer.to_str()) for each in (build_tokenizer(), TOKENIZER))
    assert trained["model"] == packaged["model"]


def test_the_labeler_half_knows_the_answer_the_prover_knows_less_and_no_free_label_ranks_steps_well():
    labeler, prover = (load_language_model(f"miniature:{name}", dtype="float32") for name in ("labeler", "prover"))
    steps = true_steps(world_rows())
    assert max(free_controls(steps, labeler).values()) <= 0.75
    early = sample([step for step in steps if step.is_early], 100)
    known, less = (early_probabilities(model, early) for model in (labeler, prover))
    assert mean(0.05 <= probability <= 0.95 for probability in known) >= 0.4
    assert mean(less) < 0.75 * mean(known)
