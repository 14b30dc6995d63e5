"""Formats of published process reward models: what a model reads, and which token says of a step whether it is right.

    form                  it reads                                                  a step is judged at   by
    export                as our own: template 0 with the question, the steps       its last token        score
    qwen_prm              a chat; the answer is the steps, each with <extra_0>      its <extra_0>         score
    math_shepherd         the question, then lines "Step 1: She earned 0.2. ки"     its ки                + against -
    rlhflow               a chat; each step is a user's turn, answered "+"          just before its "+"   + against -
    token_classification  [BOS], the question, the steps, a line feed after each    its line feed         score

Sources of the definitions: docs/score_and_judge.md. The probability of two classes is the sigmoid of the difference of
their logits, so every head becomes one of ours, whose output is this difference.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.text import cut, printable
from cpmi_dagster.prm.inputs import EncodedSolution, Encoder, encode_solutions

LABELS = {0: "wrong", 1: "right"}
"""Names of the two classes in our exports."""
GOOD, BAD = "+", "-"
EXTRA, KI, LINE_FEED = "<extra_0>", "ки", "\n"
QWEN_SYSTEM = r"Please reason step by step, and put your final answer within \boxed{}."

RIGHT, WRONG = (
    frozenset(words.split())
    for words in (
        "+ ✓ ✔ ✅ right correct good positive true yes valid accept accepted pass passed ok chosen accurate 正确",
        "- − ✗ ✘ ❌ wrong incorrect bad negative false invalid reject rejected fail failed inaccurate error errors err "
        "erroneous mistake mistakes mistaken flawed faulty 错误 不正确",
    )
)
NEGATIONS = frozenset(("no", "not", "non", "without", "free"))
WORD = re.compile(r"[^\W\d_]+|[✓✔✅✗✘❌]|(?<![^\W_])[-+−](?![^\W\d_])")
"""A word or a sign; the hyphen of `non-correct` is none."""
CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")

Tokenizer = PreTrainedTokenizerBase
Layers = list[tuple[Tensor, Tensor | None]]
"""Weight and bias of each layer of a head, in order; the last layer has one output."""
Encoded = tuple[list[int], list[int]]
"""Token ids of a solution, and the index at which each step is judged."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelFiles:
    """A model's folder or hub id, its config.json, and the file of each weight."""

    name: str
    config: Mapping[str, Any]
    weights: Mapping[str, Path]

    @property
    def architecture(self) -> str:
        """The architecture in the config, or an empty text."""
        return next(iter(self.config.get("architectures") or ()), "")

    def weight(self, name: str) -> Tensor:
        """Load a weight by name.

        Raises:
            ModelError: there is no such weight.
        """
        if name not in self.weights:
            raise ModelError(f"it has no weights `{name}`")
        with safe_open(self.weights[name], framework="pt") as stored:
            return stored.get_tensor(name)


class PrmFormat(NamedTuple):
    """A form of process reward models, with patterns of the architecture and the name of a model."""

    architecture: str
    name: str
    encode: Encoder
    layers: Callable[[ModelFiles, Tokenizer], Layers]
    """Makes the layers of the head from the model's weights."""
    mark: str = ""
    """The text at the end of a step, if ends are found by a text and not by counting."""


def choose_format(files: ModelFiles, form: str | None) -> str:
    """The given form, else the form by a model's files.

    Raises:
        ModelError: the form does not exist, or the files do not tell it.
    """
    if form and form not in PRM_FORMATS:
        raise ModelError(f"`{form}` is no form of reward models; choose from {', '.join(PRM_FORMATS)}")
    if form or _is_export(files):
        return form or "export"
    for name, entry in PRM_FORMATS.items():
        is_named = re.search(entry.name, files.name.casefold())
        if is_named and files.architecture and re.fullmatch(entry.architecture, files.architecture):
            return name
    raise ModelError(
        f"`{files.name}` is a {files.architecture or 'model without an architecture'}, which does not say how it "
        f"judges steps; give its form ({', '.join(PRM_FORMATS)}), "
        "or a file of its probabilities (docs/score_and_judge.md)"
    )


def _each(encode: Callable[[Tokenizer, str, Sequence[str]], Encoded]) -> Encoder:
    """Apply an encoder of a solution to many."""
    return lambda tokenizer, questions, solutions: [
        EncodedSolution(*encode(tokenizer, question, steps))
        for question, steps in zip(questions, solutions, strict=True)
    ]


def _ids(tokenizer: Tokenizer, text: str, special: bool = False) -> list[int]:
    return list(tokenizer(text, add_special_tokens=special)["input_ids"])


def _token(tokenizer: Tokenizer, text: str, before: str = "") -> int:
    """The token of a text that follows another text.

    Raises:
        ModelError: the text is not exactly one token.
    """
    ids, start = _ids(tokenizer, f"{before} {text}" if before else text), _ids(tokenizer, before) if before else []
    if not ids or ids[:-1] != start or ids[-1] == tokenizer.unk_token_id:
        raise ModelError(f"its tokenizer does not write `{text}` as one token")
    return ids[-1]


def _chat(tokenizer: Tokenizer, turns: Sequence[tuple[str, str]]) -> str:
    if tokenizer.chat_template is None:
        raise ModelError("its tokenizer has no chat template")
    messages = [{"role": role, "content": content} for role, content in turns]
    return str(tokenizer.apply_chat_template(messages, tokenize=False))


def _encode_marked(tokenizer: Tokenizer, text: str, mark: int) -> Encoded:
    """Encode a text in which steps are judged at the token `mark`."""
    ids = _ids(tokenizer, text, special=True)
    return ids, [place for place, token in enumerate(ids) if token == mark]


def _qwen_prm(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> Encoded:
    answer = "".join(f"{step}{EXTRA}" for step in steps)
    text = _chat(tokenizer, [("system", QWEN_SYSTEM), ("user", question), ("assistant", answer)])
    return _encode_marked(tokenizer, text, _token(tokenizer, EXTRA))


def _math_shepherd(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> Encoded:
    named = [
        step.strip() if step.strip().casefold().startswith("step") else f"Step {number}: {step.strip()}"
        for number, step in enumerate(steps, start=1)
    ]
    text = f"{question} " + LINE_FEED.join(f"{step} {KI}" for step in named)
    return _encode_marked(tokenizer, text, _token(tokenizer, KI, "a"))


def _rlhflow(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> Encoded:
    def read(turns: Sequence[tuple[str, str]]) -> list[int]:
        return _ids(tokenizer, _chat(tokenizer, turns))

    asked = [("user", "a"), ("assistant", GOOD)]
    answer, good = read(asked)[len(read(asked[:1])) :], _token(tokenizer, GOOD)
    if answer.count(good) != 1 or answer[0] == good:
        raise ModelError(f"its chat template does not write an answer of `{GOOD}` with something before it")
    after = len(answer) - answer.index(good) + 1
    texts = [step.strip() for step in steps]
    turns = [turn for text in (f"{question} {texts[0]}", *texts[1:]) for turn in (("user", text), ("assistant", GOOD))]
    # a step may contain "+", so ends are found by the length of the dialogue up to the step
    return read(turns), [len(read(turns[: 2 * number])) - after for number in range(1, len(steps) + 1)]


def _token_classification(tokenizer: Tokenizer, question: str, steps: Sequence[str]) -> Encoded:
    start: Any = tokenizer.bos_token_id
    ids, end = [*([] if start is None else [start]), *_ids(tokenizer, question)], _ids(tokenizer, LINE_FEED)
    if not end:
        raise ModelError("its tokenizer writes no line feed")
    places = []
    for step in steps:
        ids += [*_ids(tokenizer, step), *end]
        places.append(len(ids) - 1)
    return ids, places


def _score(files: ModelFiles, tokenizer: Tokenizer, is_fixed: bool = False) -> Layers:
    """Layers of a head of one or two outputs, turned into one output that is larger if a step is right."""
    hidden: Layers = []
    name = "classifier" if "classifier.weight" in files.weights else "score"
    if "score.0.weight" in files.weights:
        hidden.append((files.weight("score.0.weight").float(), files.weight("score.0.bias").float()))
        name = "score.2"
    weight = files.weight(f"{name}.weight").float()
    bias = files.weight(f"{name}.bias").float() if f"{name}.bias" in files.weights else None
    if len(weight) not in (1, 2):
        raise ModelError(f"its head `{name}` has {len(weight)} outputs, and one or two can be read")
    sign = last_label_sign(files.config, len(weight), files.name, is_fixed)
    if len(weight) == 2:
        weight, bias = weight[1:] - weight[:1], None if bias is None else bias[1:] - bias[:1]
    return [*hidden, (sign * weight, None if bias is None else sign * bias)]


def last_label_sign(config: Mapping[str, Any], outputs: int, model: str, is_fixed: bool) -> int:
    """1 if the last label means that a step is right, -1 if it means wrong.

        {"0": "-", "1": "+"}               1
        {"0": "correct", "1": "error"}    -1
        {"0": "error", "1": "no_error"}    1: `no` negates a word
        {"0": "LABEL_0", "1": "wrong"}    -1: one known name decides
        {"0": "LABEL_0", "1": "LABEL_1"}   1, with a warning

    Args:
        config: config.json with `id2label` and `label2id`.
        outputs: outputs of the head, one or two; one is the probability of the last named label.
        model: name of the model, for the warning.
        is_fixed: the publisher says that the last label means right, so unknown names need no warning.

    Raises:
        ModelError: the names contradict each other or the head.
    """
    names = [(str(number), str(name)) for number, name in (config.get("id2label") or {}).items()]
    names += [(str(number), str(name)) for name, number in (config.get("label2id") or {}).items()]
    meanings = {(number, meaning) for number, name in names if (meaning := _meaning(name))}
    last = "1" if outputs == 2 or "1" in dict(names) else "0"
    signs = {meaning if number == last else -meaning for number, meaning in meanings}
    is_turned_value = outputs == 1 and last == "1" and signs == {-1}
    said = printable(cut(", ".join(f"{number} `{name}`" for number, name in dict.fromkeys(names)), 200)) or "no names"
    if len(signs) > 1 or is_turned_value or not {number for number, _ in meanings} <= {"0", "1"}:
        raise ModelError(
            f"the labels of its config.json ({said}) do not say which output means that a step is right, and "
            "`id2label` needs one name of each kind"
        )
    if not signs and outputs == 2 and not is_fixed:
        logger.warning(
            "the labels of %s (%s) do not say which means that a step is right: label 1 is taken as right; if that is "
            "label 0, name both in `id2label` of its config.json",
            model,
            said,
        )
    return signs.pop() if signs else 1


def _meaning(name: str) -> int:
    """1 if a label's name means right, -1 if it means wrong, else 0."""
    words = set(WORD.findall(CAMEL_CASE.sub(" ", name).casefold()))
    if words == {"no"}:
        return -1
    meaning = bool(words & RIGHT) - bool(words & WRONG)
    return -meaning if words & NEGATIONS else meaning


def _good_against_bad(files: ModelFiles, tokenizer: Tokenizer, before: str = "") -> Layers:
    """A layer of the difference of the language-model head's rows of + and -, tokenised after a text."""
    tied = next((name for name in files.weights if name.endswith("embed_tokens.weight")), "")
    rows = files.weight("lm_head.weight" if "lm_head.weight" in files.weights else tied)
    good, bad = (rows[_token(tokenizer, sign, before)].float() for sign in (GOOD, BAD))
    return [((good - bad)[None], None)]


def _is_export(files: ModelFiles) -> bool:
    """Whether `exports.reward_models` wrote it: in an export, the row of class 0 is zero."""
    name = next((name for name in ("score.2.weight", "score.weight") if name in files.weights), None)
    named = files.config.get("id2label") == {str(number): label for number, label in LABELS.items()}
    return named and name is not None and not files.weight(name)[0].any()


# files of a causal language model do not tell that it judges: those of the hub are known by their names
PRM_FORMATS: dict[str, PrmFormat] = {
    "export": PrmFormat("", "", encode_solutions, _score),
    "qwen_prm": PrmFormat("Qwen2ForProcessRewardModel", "", _each(_qwen_prm), partial(_score, is_fixed=True), EXTRA),
    "math_shepherd": PrmFormat(
        "MistralForCausalLM", "math-shepherd", _each(_math_shepherd), partial(_good_against_bad, before="a"), KI
    ),
    "rlhflow": PrmFormat("LlamaForCausalLM", "-prm-(deepseek|mistral)-data$", _each(_rlhflow), _good_against_bad),
    "token_classification": PrmFormat(".+ForTokenClassification", "", _each(_token_classification), _score),
}
