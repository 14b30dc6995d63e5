"""Reward models of others, exports among them, judge as their own definitions say, read by transformers one by one."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from cpmi_dagster.errors import ModelError, ScoringError
from cpmi_dagster.prm import score_steps
from cpmi_dagster.prm.predict import predict_file, predict_rows
from cpmi_dagster.prm.published import load_prm
from cpmi_dagster.prm.published_formats import PRM_FORMATS, last_label_sign
from cpmi_dagster.trajectories.given_rows import read_table

pytestmark = pytest.mark.slow

QUESTION = "How many are 2 + 3?"
SOLUTIONS = [["We add: 2 + 3 = 5.", "So 5."], ["Step 1: none", "", "a + b"], ["Two.\nlines", "So -1 + 6.", "5", "5"]]
SPECIAL = ["<s>", "<|im_start|>", "<|im_end|>", "<extra_0>", "<|header|>", "<|end|>"]
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"  # as Qwen's
LLAMA = "<s>{% for m in messages %}<|header|>{{ m.role }}<|header|>\n\n{{ m.content | trim }}<|end|>{% endfor %}"
SYSTEM = r"Please reason step by step, and put your final answer within \boxed{}."


def byte_tokenizer(bos: bool, template: str | None = None, words: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """A token for each byte and each of `words`; with `bos`, one before every text, as Llama's has."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    merges: list[tuple[str, str]] = []
    for word in words:
        left = ""
        for letter in (token for token in encoded(word)):
            if left:
                merges.append((left, letter))
                vocabulary.setdefault(left + letter, len(vocabulary))
            left += letter
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(SPECIAL)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    chat: dict[str, Any] = {"chat_template": template} if template else {}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>" if bos else None, **chat)


def encoded(word: str) -> list[str]:
    """A word in the alphabet of bytes."""
    return list(pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(word)[0][0])


def config_of(architecture: str, tokenizer: PreTrainedTokenizerBase, context: int = 1024, **others: Any) -> Any:
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes: dict[str, Any] = {**size, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": len(tokenizer)}
    sizes["max_position_embeddings"] = context
    return CONFIG_MAPPING[architecture](**sizes, **others)


def spread(model: nn.Module, deviation: float = 0.3) -> None:
    """Weights large enough for the steps' probabilities to differ."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=deviation)


def write(folder: Path, model: Any, tokenizer: PreTrainedTokenizerBase, **changed: Any) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changed))


def add_weights(folder: Path, prefix: str, head: nn.Module) -> None:
    """A head beside the decoder's weights, named as in a class that is not of transformers."""
    weights = load_file(folder / "model.safetensors")
    weights |= {f"{prefix}.{name}": tensor for name, tensor in head.state_dict().items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


Judged = Callable[[str, Sequence[str]], list[float]]
"""Question and steps -> probabilities, as the publisher of a model computes them."""


def qwen_prm(folder: Path, context: int = 1024) -> Judged:
    """As the card of Qwen/Qwen2.5-Math-PRM-7B."""
    tokenizer = byte_tokenizer(False, CHATML)
    base = AutoModelForCausalLM.from_config(config_of("qwen2", tokenizer, context))
    score = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    spread(base)
    spread(score)
    its_code = {"AutoConfig": "configuration_qwen2_rm.C", "AutoModel": "modeling_qwen2_rm.Qwen2ForProcessRewardModel"}
    write(folder, base, tokenizer, architectures=["Qwen2ForProcessRewardModel"], auto_map=its_code)
    for name in ("modeling_qwen2_rm.py", "configuration_qwen2_rm.py"):
        (folder / name).write_text("raise RuntimeError('code of a model was run')\n")
    add_weights(folder, "score", score)

    def judged(question: str, steps: Sequence[str]) -> list[float]:
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": question},
            {"role": "assistant", "content": "<extra_0>".join(steps) + "<extra_0>"},
        ]
        text: Any = tokenizer.apply_chat_template(messages, tokenize=False)
        ids = torch.tensor([tokenizer.encode(text)])
        logits = score(base.model(ids).last_hidden_state)[0]
        return logits[ids[0] == tokenizer.encode("<extra_0>")[0]].softmax(-1)[:, 1].tolist()

    return judged


def math_shepherd(folder: Path, context: int = 1024) -> Judged:
    """As the card of peiyi9979/math-shepherd-mistral-7b-prm."""
    tokenizer = byte_tokenizer(True, words=(" ки", " +", " -"))
    model = AutoModelForCausalLM.from_config(config_of("mistral", tokenizer, context))
    spread(model)
    write(folder, model, tokenizer)
    good, bad, tag = (tokenizer.encode(f" {sign}")[-1] for sign in ("+", "-", "ки"))

    def judged(question: str, steps: Sequence[str]) -> list[float]:
        named = [step if step.startswith("Step") else f"Step {number + 1}: {step}" for number, step in enumerate(steps)]
        ids = torch.tensor([tokenizer.encode(f"{question} " + "\n".join(f"{step} ки" for step in named))])
        return model(ids).logits[:, :, [good, bad]].softmax(-1)[:, :, 0][ids == tag].tolist()

    return judged


def rlhflow(folder: Path, context: int = 1024) -> Judged:
    """As math-rm/prm_evaluate.py of RLHFlow/RLHF-Reward-Modeling: the dialogue up to each step, the third from last."""
    tokenizer = byte_tokenizer(True, LLAMA)
    model = AutoModelForCausalLM.from_config(config_of("llama", tokenizer, context, tie_word_embeddings=True))
    spread(model)
    write(folder, model, tokenizer)
    signs = [tokenizer.encode("+")[-1], tokenizer.encode("-")[-1]]

    def judged(question: str, steps: Sequence[str]) -> list[float]:
        probabilities, dialogue = [], []
        for number, step in enumerate(steps):
            text = f"{question} {step}" if number == 0 else step
            dialogue += [{"role": "user", "content": text}, {"role": "assistant", "content": "+"}]
            ids = tokenizer.apply_chat_template(dialogue, return_tensors="pt", return_dict=False)
            assert isinstance(ids, Tensor)
            probabilities.append(float(model(ids).logits[0, -3, signs].softmax(-1)[0]))
        return probabilities

    return judged


def token_classification(folder: Path, context: int = 1024, labels: int = 2) -> Judged:
    """As TRL's PRMTrainer tokenises and labels."""
    tokenizer = byte_tokenizer(True)
    config = config_of("qwen3", tokenizer, context, num_labels=labels)
    model = AutoModelForTokenClassification.from_config(config).eval()
    spread(model)
    write(folder, model, tokenizer)

    def judged(question: str, steps: Sequence[str]) -> list[float]:
        plain = [tokenizer.encode(text, add_special_tokens=False) for text in (question, *steps, "\n")]
        ids, places = [0, *plain[0]], []
        for step in plain[1:-1]:
            ids += [*step, *plain[-1]]
            places.append(len(ids) - 1)
        logits = model(torch.tensor([ids])).logits[0, places]
        return (logits.softmax(-1)[:, 1] if labels == 2 else logits[:, 0].sigmoid()).tolist()

    return judged


def one_label(folder: Path, context: int = 1024) -> Judged:
    return token_classification(folder, context, labels=1)


MAKERS: dict[str, tuple[Callable[..., Judged], str]] = {
    "qwen_prm": (qwen_prm, "prm"),
    "math_shepherd": (math_shepherd, "math-shepherd-mistral-7b-prm"),
    "rlhflow": (rlhflow, "Llama3.1-8B-PRM-Deepseek-Data"),
    "token_classification": (token_classification, "prm"),
    "one_label": (one_label, "prm"),
}


@pytest.fixture
def make(tmp_path):
    """`make("rlhflow", context=64)`: a model of that form in a folder of its name, and its publisher's computation."""

    def build(form: str, name: str | None = None, **options: Any) -> tuple[Path, Judged]:
        maker, usual = MAKERS[form]
        folder = tmp_path / (name or usual)
        torch.manual_seed(0)
        return folder, maker(folder, **options)

    return build


def solution(steps: Sequence[str], **values: Any) -> dict[str, Any]:
    return {"question": QUESTION, "steps": list(steps), **values}


@torch.no_grad()
def by_hand(judged: Judged) -> list[list[float]]:
    return [judged(QUESTION, steps) for steps in SOLUTIONS]


@pytest.mark.parametrize("form", MAKERS)
def test_a_model_of_others_judges_as_its_publisher_says(make, form):
    folder, judged = make(form)
    assert set(PRM_FORMATS) == {"export", *MAKERS} - {"one_label"}
    expected = by_hand(judged)
    # an empty step is judged in a benchmark's rows alone
    solutions = [solution(steps, benchmark="prmbench") for steps in SOLUTIONS]
    rows = predict_rows(load_prm(str(folder)), read_table(solutions, for_judge=True), 0.5, lambda _: None)
    assert len({round(value, 3) for steps in expected for value in steps}) >= 6
    for row, values in zip(rows, expected, strict=True):
        assert row["probabilities"] == pytest.approx(values, abs=2e-5)


@pytest.mark.parametrize(
    ("names", "right"),
    [
        (("+", "-"), 0), (("wrong", "right"), 1), ((True, False), 0), (("error", "no error"), 1), (("1", "-1"), 0),
        (("step_correct", "non-correct"), 0), (("LABEL_0", "wrong"), 0),
    ],
)  # fmt: skip
def test_names_of_labels_say_which_class_is_right(names, right, caplog):
    for config in ({"id2label": dict(enumerate(names))}, {"label2id": {str(names[n]): n for n in (0, 1)}}):
        assert last_label_sign(config, 2, "m", False) == (1 if right else -1)
    assert not caplog.records


def test_if_the_names_do_not_say_label_1_is_right_and_a_warning_says_so_and_names_that_contradict_are_refused(caplog):
    assert last_label_sign({"id2label": {0: "LABEL_0", 1: "LABEL_1"}}, 2, "my-prm", False) == 1
    assert "the labels of my-prm" in caplog.text and "label 1 is taken as right" in caplog.text
    for by_number, by_name in (({0: "correct", 1: "right"}, {}), ({0: "+", 1: "-"}, {"+": 1, "-": 0})):
        with pytest.raises(ModelError, match=r"the labels of its config.json \(0 `.*do not say which output means"):
            last_label_sign({"id2label": by_number, "label2id": by_name}, 2, "my-prm", False)


def test_a_model_of_another_form_or_of_none_is_refused_in_a_sentence(make):
    folder, _ = make("rlhflow", "my-model")
    with pytest.raises(ModelError, match="is a LlamaForCausalLM, which does not say how it judges"):
        load_prm(str(folder))
    with pytest.raises(ModelError, match="tokenizer does not write `ки` as one token"):
        load_prm(str(folder), form="math_shepherd")


def test_a_solution_that_is_too_long_or_has_the_mark_in_its_text_keeps_its_line_with_a_reason(make, tmp_path):
    folder, _ = make("qwen_prm", context=256)
    lines = [solution(["5"]), solution(["a<extra_0>b"], id="mark"), solution(["5"] * 90, id="long")]
    rows = predict_file(str(folder), read_table(lines), tmp_path / "out.jsonl", lambda *_: None)
    whole, mark, long = (row.get("reason", "") for row in rows)
    assert not whole
    assert "step 0 (from 0) holds `<extra_0>`, which ends a step" in mark and "the model reads at most 256" in long
    frame = pl.DataFrame({"id": ["mark"], "question": [QUESTION], "steps": [lines[1]["steps"]]})
    with pytest.raises(ScoringError, match=r"prm@.* with id mark: its text has `<extra_0>`, which marks the end"):
        score_steps(load_prm(str(folder)), frame, 512)
