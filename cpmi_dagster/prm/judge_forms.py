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
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from cpmi_dagster.errors import ModelError
from cpmi_dagster.prm.inputs import EncodedSolution, Encoder, encode_solutions
from cpmi_dagster.prm.judge_classes import last_label_sign

LABELS = {0: "wrong", 1: "right"}
"""What an export of ours calls its two classes."""
GOOD, BAD = "+", "-"
EXTRA, KI, LINE_FEED = "<extra_0>", "ки", "\n"
QWEN_SYSTEM = r"Please reason step by step, and put your final answer within \boxed{}."

Layers = list[tuple[Tensor, Tensor | None]]
"""Weight and bias of each layer of a head, the first one first; the last has one output."""
Weights = Mapping[str, Tensor]
Tokenizer = PreTrainedTokenizerBase


class JudgeFiles(NamedTuple):
    """What the files of a model hold: its folder or hub id, config.json, and weights by name."""

    name: str
    config: Mapping[str, Any]
    weights: Weights

    @property
    def architecture(self) -> str:
        """Of its config; empty if there is none."""
        return next(iter(self.config.get("architectures") or ()), "")


@dataclass(frozen=True)
class Form:
    """A form of process reward models.

    Attributes:
        fits: whether a model is of this form, as its files say.
        encode: as `inputs.encode_solutions`.
        layers: of the head, from the model's own weights.
        mark: what it reads at the end of a step, where that is found in the text and not by counting.
    """

    fits: Callable[[JudgeFiles], bool]
    encode: Encoder
    layers: Callable[[JudgeFiles, Tokenizer], Layers]
    mark: Callable[[Tokenizer], str] | None = None


def form_of(files: JudgeFiles) -> str:
    """The form of a model.

    Raises:
        ModelError: its files do not say.
    """
    for form, entry in FORMS.items():
        if entry.fits(files):
            return form
    raise ModelError(
        f"`{files.name}` is a {files.architecture or 'model without an architecture'}, which does not say how it "
        f"judges steps; if it is a process reward model, give its form: {', '.join(FORMS)}"
    )


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


def _answer(tokenizer: Tokenizer) -> str:
    """What the template writes for an answer, on one line."""
    asked = [("user", "a"), ("assistant", GOOD)]
    return _chat(tokenizer, asked).removeprefix(_chat(tokenizer, asked[:1])).strip().replace(LINE_FEED, r"\n")


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


def _one_output(files: JudgeFiles, name: str, is_fixed: bool) -> tuple[Tensor, Tensor | None]:
    """A linear layer of two classes or of one output, as one whose output is larger where a step is right."""
    weights = files.weights
    if f"{name}.weight" not in weights:
        raise ModelError(f"it has no weights `{name}.weight`")
    weight, bias = weights[f"{name}.weight"].float(), None
    if f"{name}.bias" in weights:
        bias = weights[f"{name}.bias"].float()
    if len(weight) not in (1, 2):
        raise ModelError(f"its head `{name}` has {len(weight)} outputs, and one or two can be read")
    sign = last_label_sign(files.config, len(weight), files.name, is_fixed)
    if len(weight) == 2:
        weight, bias = weight[1:] - weight[:1], None if bias is None else bias[1:] - bias[:1]
    return sign * weight, None if bias is None else sign * bias


def _score(files: JudgeFiles, tokenizer: Tokenizer, is_fixed: bool = False) -> Layers:
    weights = files.weights
    if "score.0.weight" in weights:
        hidden = weights["score.0.weight"].float(), weights["score.0.bias"].float()
        return [hidden, _one_output(files, "score.2", is_fixed)]
    return [_one_output(files, "classifier" if "classifier.weight" in weights else "score", is_fixed)]


def _value(files: JudgeFiles, tokenizer: Tokenizer) -> Layers:
    return [_one_output(files, "v_head.summary", is_fixed=True)]


def _good_against_bad(before: str) -> Callable[[JudgeFiles, Tokenizer], Layers]:
    """The language-model head's rows of + and -, as they are tokenised behind a text."""

    def layers(files: JudgeFiles, tokenizer: Tokenizer) -> Layers:
        tied = next((name for name in files.weights if name.endswith("embed_tokens.weight")), "")
        rows = files.weights["lm_head.weight" if "lm_head.weight" in files.weights else tied]
        good, bad = (rows[_token(tokenizer, sign, before)].float() for sign in (GOOD, BAD))
        return [((good - bad)[None], None)]

    return layers


def _is_export(files: JudgeFiles) -> bool:
    """Whether `exports.reward_models` has written it: others may call their labels so too, but learn both logits."""
    rows = next((files.weights[name] for name in ("score.2.weight", "score.weight") if name in files.weights), None)
    named = files.config.get("id2label") == {str(number): label for number, label in LABELS.items()}
    return named and rows is not None and not rows[0].any()


# a causal language model does not say in its files that it judges: those on the hub are known by their names
FORMS: dict[str, Form] = {
    "export": Form(_is_export, encode_solutions, _score),
    "qwen_prm": Form(
        lambda files: files.architecture == "Qwen2ForProcessRewardModel",
        _each(_qwen_prm),
        partial(_score, is_fixed=True),
        lambda _: EXTRA,
    ),
    "math_shepherd": Form(
        lambda files: files.architecture == "MistralForCausalLM" and "math-shepherd" in files.name.casefold(),
        _each(_math_shepherd),
        _good_against_bad("a"),
        lambda _: KI,
    ),
    "rlhflow": Form(
        lambda files: (
            files.architecture == "LlamaForCausalLM"
            and files.name.casefold().endswith(("-prm-deepseek-data", "-prm-mistral-data"))
        ),
        _each(_rlhflow),
        _good_against_bad(""),
        _answer,
    ),
    "skywork": Form(lambda files: files.architecture == "Qwen2ForPrmModel", _each(_skywork), _value),
    "token_classification": Form(
        lambda files: files.architecture.endswith("ForTokenClassification"),
        _each(_token_classification),
        _score,
    ),
}
