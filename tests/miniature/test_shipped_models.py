"""The packaged tokenizer and language models: complete, small, and with the half knowledge that the demo needs."""

import json
from dataclasses import replace
from itertools import islice
from statistics import mean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from cpmi_dagster.miniature.names import MODEL_FOLDERS
from cpmi_dagster.models.language_models import LoadedModel, load_language_model
from scripts.miniature_models.batches import training_batches
from scripts.miniature_models.corpus import documents
from scripts.miniature_models.facts import early_probabilities, free_controls, sample, true_steps
from scripts.miniature_models.measure import accuracy, question_sets
from scripts.miniature_models.recipes import RECIPES
from scripts.miniature_models.tokenizer import EOS_ID, PAD_ID, build_tokenizer
from scripts.miniature_models.train import build_model, train_steps
from scripts.miniature_world.held_out import is_held_out
from scripts.miniature_world.world import world_rows

pytestmark = pytest.mark.slow

LARGEST_TOTAL = 8_000_000
MODEL_FILES = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
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


@pytest.mark.parametrize(
    ("name", "least", "most"), [("labeler", 8e5, 1e6), ("prover", 3e5, 4e5), ("backbone", 1e6, 2e6)]
)
def test_a_model_folder_is_complete_and_loads(name, least, most):
    folder = MODEL_FOLDERS[name]
    assert {path.name for path in folder.iterdir()} >= MODEL_FILES | {"README.md"}
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == (torch.float16 if name == "backbone" else torch.float32)
    assert least < model.num_parameters() < most
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(folder))


def test_the_models_fit_into_the_package():
    sizes = [path.stat().st_size for folder in MODEL_FOLDERS.values() for path in folder.rglob("*") if path.is_file()]
    assert sum(sizes) < LARGEST_TOTAL


@pytest.fixture(scope="module")
def labeler() -> LoadedModel:
    return load_language_model("miniature:labeler", dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def steps():
    return true_steps(world_rows())


def test_no_label_that_costs_nothing_ranks_steps_well(steps, labeler):
    assert max(free_controls(steps, labeler).values()) <= 0.75


def test_the_labeler_half_knows_the_answer_and_the_prover_knows_less(labeler, steps):
    prover = load_language_model("miniature:prover", dtype="float32", device="cpu")
    early = sample([step for step in steps if step.is_early], 200)
    known, less = (early_probabilities(model, early) for model in (labeler, prover))
    assert mean(0.05 <= probability <= 0.95 for probability in known) >= 0.4
    assert mean(less) < 0.75 * mean(known)


def test_the_labeler_solves_most_problems_but_not_all(labeler):
    problems = [problem for name in ("gsm8k_test", "math500_test") for problem in question_sets()[name]]
    assert 0.5 <= accuracy(labeler.model, labeler.tokenizer, problems, temperature=0.0) <= 0.85


def test_training_text_has_no_question_of_the_world():
    for document in islice(documents(7, marked=0.3), 200):
        assert not is_held_out(document.prompt.split("Problem:\n")[1].split("\nSolution")[0].split("\n(A)")[0])


def test_training_lowers_the_loss():
    toy = replace(RECIPES["prover"], hidden_size=32, feed_forward=64, layers=1, head_size=8, steps=60, batch_tokens=400)
    batches = training_batches(TOKENIZER, toy.batch_tokens, seed=1, marked=0.3)
    losses = [loss for _, loss in train_steps(build_model(toy, TOKENIZER), toy, batches)]
    assert len(losses) == toy.steps and mean(losses[-5:]) < mean(losses[:5])
