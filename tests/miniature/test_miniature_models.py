"""The packaged tokenizer and language models."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sample_problems import generators, problems
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM

from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.miniature.slips import make_mistake
from cpmi_dagster.trajectories.templates import render_context, render_question, render_step, render_target
from scripts.miniature_models.tokenizer import EOS_ID, PAD_ID, build_tokenizer

pytestmark = pytest.mark.slow

LARGEST_TOTAL = 8_000_000
MODEL_FILES = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
TOKENIZER: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(MODEL_FOLDERS["labeler"])
models = pytest.mark.parametrize("folder", MODEL_FOLDERS.values(), ids=MODEL_FOLDERS)


def ids_of(text: str) -> list[int]:
    return TOKENIZER.encode(text)


@given(st.text())
def test_any_text_survives_the_tokenizer(text):
    assert TOKENIZER.decode(ids_of(text)) == text


@given(
    st.lists(st.text().map(lambda text: text.strip() + "\n")),
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n")),
)
def test_lines_tokenised_one_by_one_are_the_text_tokenised_whole(lines, last):
    pieces = [*lines, last]
    assert [token for piece in pieces for token in ids_of(piece)] == ids_of("".join(pieces))


@given(problems, generators, st.integers(0, 3))
def test_the_pieces_of_a_scored_text_are_the_text(problem, rng, template):
    solution = make_mistake(problem, rng)
    pieces = [
        render_question(problem.question, template),
        *(render_step(step) for step in solution.steps),
        render_target(solution.answer),
    ]
    assert [token for piece in pieces for token in ids_of(piece)] == ids_of("".join(pieces))


@given(st.integers(0, 10**12))
def test_every_digit_is_a_token(number):
    assert len(ids_of(str(number))) == len(str(number))


def test_nothing_is_added_to_a_text():
    assert TOKENIZER.bos_token is None
    assert (TOKENIZER.eos_token_id, TOKENIZER.pad_token_id) == (EOS_ID, PAD_ID)
    assert not {EOS_ID, PAD_ID} & set(ids_of("The answer is: 12\n"))


def test_the_packaged_tokenizer_is_the_one_that_the_code_trains():
    assert (
        json.loads(build_tokenizer().backend_tokenizer.to_str())["model"]
        == json.loads(TOKENIZER.backend_tokenizer.to_str())["model"]
    )


@models
def test_a_model_folder_is_complete(folder):
    assert {path.name for path in folder.iterdir()} >= MODEL_FILES | {"README.md"}


@models
def test_a_model_loads_and_knows_its_tokenizer(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert isinstance(model, Qwen3ForCausalLM)
    assert model.dtype == (torch.float16 if folder.name == "backbone" else torch.float32)
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(folder))
    assert model.config.tie_word_embeddings


def test_the_prover_is_the_smaller_model():
    labeler, prover = (AutoModelForCausalLM.from_pretrained(MODEL_FOLDERS[name]) for name in ("labeler", "prover"))
    assert 800_000 < labeler.num_parameters() < 1_200_000
    assert 250_000 < prover.num_parameters() < 450_000


def test_the_models_fit_into_the_package():
    sizes = [path.stat().st_size for folder in MODEL_FOLDERS.values() for path in folder.rglob("*") if path.is_file()]
    assert sum(sizes) < LARGEST_TOTAL


def test_the_labeler_prefers_the_right_answer_after_its_last_step():
    model = AutoModelForCausalLM.from_pretrained(MODEL_FOLDERS["labeler"]).eval()
    question = "Ana has 48 shells and finds 12 more. She loses 20 shells. How many shells are there in the end?"
    steps = ["At first Ana has 48+12=<<48+12=60>>60 shells.", "That leaves 60-20=<<60-20=40>>40 shells."]
    context = ids_of(render_context(question, steps))

    def log_probability(answer: str) -> float:
        target = ids_of(render_target(answer))
        with torch.inference_mode():
            logits = model(torch.tensor([context + target])).logits[0, len(context) - 1 : -1]
        return logits.log_softmax(-1)[range(len(target)), target].mean().item()

    assert log_probability("40") > max(map(log_probability, ("41", "60", "20")))
