"""Process reward models of others: what a model of each form reads, and where in it a step is judged.

    form                  it reads                                                  a step is judged at   by
    export                as our own: template 0 with the question, the steps       its last token        score
    qwen_prm              a chat; the answer is the steps, each with <extra_0>      its <extra_0>         score
    math_shepherd         the question, then lines "Step 1: She earned 0.2. ки"     its ки                + against -
    rlhflow               a chat; each step is a user's turn, answered "+"          just before its "+"   + against -
    skywork               BOS, the question, the steps, a line feed after each      its line feed         v_head
    token_classification  [BOS], the question, the steps, a line feed after each    its line feed         score

Where each definition is from: docs/judges.md. In every form the probability of two classes is the sigmoid of the
difference of their logits, so its head is one of ours: the layers below put such a difference into one output.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from cpmi_dagster.errors import ModelError
from cpmi_dagster.prm.inputs import EncodedSolution, Encoder, encode_solutions

LABELS = {0: "wrong", 1: "right"}
"""What an export of ours calls its two classes; by this its config.json is recognised."""
GOOD, BAD = "+", "-"
EXTRA, KI, LINE_FEED = "<extra_0>", "ки", "\n"
QWEN_SYSTEM = r"Please reason step by step, and put your final answer within \boxed{}."

Layers = list[tuple[Tensor, Tensor | None]]
"""Weight and bias of each layer of a head, the first one first; the last has one output."""
Weights = Mapping[str, Tensor]
Tokenizer = PreTrainedTokenizerBase


@dataclass(frozen=True)
class Form:
    """A form of process reward models.

    Attributes:
        fits: whether a model is of this form, by its config.json and its name in small letters.
        encode: as `inputs.encode_solutions`.
        layers: of the head, from the model's own weights.
    """

    fits: Callable[[Mapping[str, Any], str], bool]
    encode: Encoder
    layers: Callable[[Weights, Tokenizer], Layers]


def form_of(config: Mapping[str, Any], name: str) -> str:
    """The form of a model.

    Args:
        config: its config.json.
        name: its folder or hub id.

    Raises:
        ModelError: its files do not say.
    """
    for form, entry in FORMS.items():
        if entry.fits(config, name.casefold()):
            return form
    raise ModelError(
        f"`{name}` is a {_architecture(config) or 'model without an architecture'}, which does not say how it judges "
        f"steps; if it is a process reward model, give its form: {', '.join(FORMS)}"
    )


def _architecture(config: Mapping[str, Any]) -> str:
    return next(iter(config.get("architectures") or ()), "")


def _each(encode: Callable[[Tokenizer, str, Sequence[str]], tuple[list[int], list[int]]]) -> Encoder:
    """An encoder of many solutions from one that gives the token ids of one, and where its steps are judged."""

    def encode_all(
        tokenizer: Tokenizer, questions: Sequence[str], solutions: Sequence[Sequence[str]]
    ) -> list[EncodedSolution]:
        pairs = zip(questions, solutions, strict=True)
        return [EncodedSolution(*encode(tokenizer, question, steps)) for question, steps in pairs]

    return encode_all


def _ids(tokenizer: Tokenizer, text: str, special: bool = False) -> list[int]:
    return list(tokenizer(text, add_special_tokens=special)["input_ids"])


def _token(tokenizer: Tokenizer, text: str, before: str = "") -> int:
    """The one token that a text is, behind another text.

    Raises:
        ModelError: it is no token, or several.
    """
    start = _ids(tokenizer, before) if before else []
    ids = _ids(tokenizer, f"{before} {text}" if before else text)
    if ids[: len(start)] != start or len(ids) != len(start) + 1 or ids[-1] == tokenizer.unk_token_id:
        raise ModelError(f"its tokenizer does not write `{text}` as one token")
    return ids[-1]


def _chat(tokenizer: Tokenizer, turns: Sequence[tuple[str, str]]) -> str:
    if tokenizer.chat_template is None:
        raise ModelError("its tokenizer has no chat template")
    messages = [{"role": role, "content": content} for role, content in turns]
    return str(tokenizer.apply_chat_template(messages, tokenize=False))


def _places(ids: Sequence[int], token: int) -> list[int]:
    return [place for place, own in enumerate(ids) if own == token]


def _qwen_prm(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> tuple[list[int], list[int]]:
    answer = "".join(f"{step}{EXTRA}" for step in steps)
    ids = _ids(tokenizer, _chat(tokenizer, [("system", QWEN_SYSTEM), ("user", question), ("assistant", answer)]), True)
    return ids, _places(ids, _token(tokenizer, EXTRA))


def _math_shepherd(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> tuple[list[int], list[int]]:
    named = [
        step.strip() if step.strip().casefold().startswith("step") else f"Step {number}: {step.strip()}"
        for number, step in enumerate(steps, start=1)
    ]
    ids = _ids(tokenizer, f"{question} " + LINE_FEED.join(f"{step} {KI}" for step in named), True)
    return ids, _places(ids, _token(tokenizer, KI, "a"))


def _rlhflow(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> tuple[list[int], list[int]]:
    texts = [step.strip() for step in steps]
    turns = [turn for text in (f"{question} {texts[0]}", *texts[1:]) for turn in (("user", text), ("assistant", GOOD))]
    ids, asked = _ids(tokenizer, _chat(tokenizer, turns)), [("user", "a"), ("assistant", GOOD)]
    # what the template writes for an answer: a step may have a "+" of its own
    answer = _ids(tokenizer, _chat(tokenizer, asked))[len(_ids(tokenizer, _chat(tokenizer, asked[:1]))) :]
    good = _places(answer, _token(tokenizer, GOOD))
    if len(good) != 1 or good[0] == 0:
        raise ModelError(f"its chat template does not write an answer of `{GOOD}` with something before it")
    starts = (place for place in range(len(ids)) if ids[place : place + len(answer)] == answer)
    return ids, [place + good[0] - 1 for place in starts]


def _skywork(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> tuple[list[int], list[int]]:
    start = _ids(tokenizer, f"{tokenizer.bos_token or ''}{question}{LINE_FEED}", True)
    return _lines(start, steps, tokenizer, _ids(tokenizer, LINE_FEED)[-1:], True)


def _token_classification(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> tuple[list[int], list[int]]:
    start: Any = tokenizer.bos_token_id
    ids = [*([] if start is None else [start]), *_ids(tokenizer, question)]
    return _lines(ids, steps, tokenizer, _ids(tokenizer, LINE_FEED), False)


def _lines(
    ids: list[int], steps: Sequence[str], tokenizer: Tokenizer, end: list[int], special: bool
) -> tuple[list[int], list[int]]:
    """Some ids with each step and the ids of its end behind them."""
    if not end:
        raise ModelError("its tokenizer writes no line feed")
    places = []
    for step in steps:
        ids = [*ids, *_ids(tokenizer, step, special), *end]
        places.append(len(ids) - 1)
    return ids, places


def _one_output(weights: Weights, name: str) -> tuple[Tensor, Tensor | None]:
    """A linear layer of two classes, wrong and right, or of one output."""
    if f"{name}.weight" not in weights:
        raise ModelError(f"it has no weights `{name}.weight`")
    weight, bias = weights[f"{name}.weight"].float(), None
    if f"{name}.bias" in weights:
        bias = weights[f"{name}.bias"].float()
    if len(weight) == 2:
        return weight[1:] - weight[:1], None if bias is None else bias[1:] - bias[:1]
    if len(weight) == 1:
        return weight, bias
    raise ModelError(f"its head `{name}` has {len(weight)} outputs, and one or two can be read")


def _score(weights: Weights, tokenizer: Tokenizer) -> Layers:
    if "score.0.weight" in weights:
        return [(weights["score.0.weight"].float(), weights["score.0.bias"].float()), _one_output(weights, "score.2")]
    return [_one_output(weights, "classifier" if "classifier.weight" in weights else "score")]


def _value(weights: Weights, tokenizer: Tokenizer) -> Layers:
    return [_one_output(weights, "v_head.summary")]


def _good_against_bad(before: str) -> Callable[[Weights, Tokenizer], Layers]:
    """The language-model head's rows of + and -, as they are tokenised behind a text."""

    def layers(weights: Weights, tokenizer: Tokenizer) -> Layers:
        tied = next((name for name in weights if name.endswith("embed_tokens.weight")), "")
        rows = weights["lm_head.weight" if "lm_head.weight" in weights else tied]
        good, bad = (rows[_token(tokenizer, sign, before)].float() for sign in (GOOD, BAD))
        return [((good - bad)[None], None)]

    return layers


# a causal language model does not say in its files that it judges: those on the hub are known by their names
FORMS: dict[str, Form] = {
    "export": Form(
        lambda config, _: config.get("id2label") == {str(number): label for number, label in LABELS.items()},
        encode_solutions,
        _score,
    ),
    "qwen_prm": Form(lambda config, _: _architecture(config) == "Qwen2ForProcessRewardModel", _each(_qwen_prm), _score),
    "math_shepherd": Form(
        lambda config, name: _architecture(config) == "MistralForCausalLM" and "math-shepherd" in name,
        _each(_math_shepherd),
        _good_against_bad("a"),
    ),
    "rlhflow": Form(
        lambda config, name: (
            _architecture(config) == "LlamaForCausalLM" and name.endswith(("-prm-deepseek-data", "-prm-mistral-data"))
        ),
        _each(_rlhflow),
        _good_against_bad(""),
    ),
    "skywork": Form(lambda config, _: _architecture(config) == "Qwen2ForPrmModel", _each(_skywork), _value),
    "token_classification": Form(
        lambda config, _: _architecture(config).endswith("ForTokenClassification"),
        _each(_token_classification),
        _score,
    ),
}
