"""The README.md of an exported data set and of an exported reward model: columns, origin, how it is loaded."""

import json
from collections.abc import Mapping

import polars as pl

from cpmi_dagster.exports import FormName
from cpmi_dagster.exports.reward_models import PROCESS_REWARD_MODELS
from cpmi_dagster.exports.rows import FORMS, SHARED_COLUMNS, Threshold
from cpmi_dagster.files.text import in_markdown
from cpmi_dagster.models.tokens import start_ids
from cpmi_dagster.prm.card import USE
from cpmi_dagster.prm.model import LoadedRewardModel
from cpmi_dagster.rewards.registry import REWARD_TYPES
from cpmi_dagster.trajectories.templates import TEMPLATES


def dataset_card(
    labelled: pl.DataFrame,
    name: str,
    form: FormName,
    reward_type: str,
    is_probability: bool,
    threshold: Threshold,
    made_of: Mapping[str, str],
    judged: Mapping[str, str],
    further: Mapping[str, str] = {},
) -> str:
    """The card as Markdown, with the metadata that the hub and `datasets` read.

    Args:
        labelled: the exported rows, as from `rewards.dataset.labelled_trajectories`.
        made_of: rows of the card's table, such as {"labeler": "Qwen/Qwen3-8B-Base@49e3418fbbbc", "seed": "0"}.
        judged: what judged steps say of the labels, as from `reports.verdict.label_facts`.
        further: columns beside those of the form, with their meanings.
    """
    entry = REWARD_TYPES.get(reward_type)
    columns = {f"`{column}`": meaning for column, meaning in {**FORMS[form], **SHARED_COLUMNS}.items()}
    columns |= {in_markdown(column): meaning for column, meaning in further.items()}
    steps = labelled["steps"].list.len()
    counts = {
        "trajectories": f"{labelled.height:,}, of {labelled['question_id'].n_unique():,} questions",
        "steps": f"{steps.sum():,}; {steps.median():g} a trajectory in the median, {steps.max()} at most",
    }
    facts = {in_markdown(key): in_markdown(value) for key, value in made_of.items()}
    meaning = f"{entry.label}. {entry.meaning}" if entry else "given by the exporter under this name."
    soft_words = (
        "The rewards are probabilities, and are the soft labels as they are."
        if is_probability
        else "Soft labels are a robust z-score over the whole set and a sigmoid: 0.5 is the median step."
    )
    believed = (
        _table("measured on judged steps", {name: in_markdown(fact) for name, fact in judged.items()})
        if judged
        else "Nothing says how many of the labels are wrong: no step has been judged since they were made."
    )
    return f"""---
pretty_name: {json.dumps(name)}
tags: [process-reward-model, prm, step-labels, cpmi, {form}]
---

# {in_markdown(name)}

{in_markdown(threshold.words(labelled))}

Solutions in steps with a label for every step by the reward `{reward_type}`, to train process reward models on.

```python
from datasets import load_dataset

rows = load_dataset("/path/to/this/folder", split="train")  # an absolute path, or the hub id
```

{_table("column", columns)}

## How the labels were made

The reward is {in_markdown(meaning)} {soft_words}

{_table("made of", {**counts, **facts})}

What is derived from these sources is subject to their licences: look them up before you publish. Labels by a method are
estimates, and gold answers are as the sources have them.

## How far to believe them

{believed}
"""


def model_card(home_card: str, name: str, model: LoadedRewardModel, architecture: str, base_model: str | None) -> str:
    """The card of an exported reward model: what training and report wrote, with the lines that load it elsewhere.

    Args:
        home_card: README.md beside the weights, by `prm.card`.
        architecture: as the exported config names it.
        base_model: the backbone's hub id; None if it is not on the hub.
    """
    _, metadata, rest = home_card.split("---\n", 2)
    kept = "".join(line for line in metadata.splitlines(True) if base_model or not line.startswith("base_model:"))
    on_vllm = model.model.head.is_linear or architecture in PROCESS_REWARD_MODELS.values()
    served = "\nvLLM serves it too: `vllm serve FOLDER --runner pooling`.\n" if on_vllm else ""
    body = rest.partition(USE)[0]
    return f"""---
{kept}---
{body}{USE}

It reads the prompt below with the question, then the steps, each followed by one newline; the last token of a step has
its score. With `transformers` alone:

```python
{snippet(name, model)}
```
{served}
It has learned from labels that a method estimated: choose the threshold for wrong steps on data of your own.
"""


def snippet(name: str, model: LoadedRewardModel) -> str:
    """Python that loads the model with transformers alone and prints the probability of every step.

    Args:
        name: what it is loaded from: its folder.
    """
    # AutoTokenizer may take the one that is usual for the architecture, whatever the file says
    tokenizer = "PreTrainedTokenizerFast" if model.tokenizer.is_fast else "AutoTokenizer"
    if model.model.head.is_linear:
        imports = f"from transformers import AutoModelForTokenClassification, {tokenizer}"
        read = """    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    logits = model(torch.tensor([sum(ids, [])])).logits[0, ends]"""
    else:
        imports = f"from safetensors import safe_open\nfrom transformers import AutoModel, {tokenizer}"
        read = """    # reports the weights `score.*` as unexpected: they are the head, which is read below
    states = AutoModel.from_pretrained(folder).eval()(torch.tensor([sum(ids, [])])).last_hidden_state[0, ends]
    with safe_open(f"{folder}/model.safetensors", "pt") as file:
        w0, b0, w2, b2 = (file.get_tensor(f"score.{name}") for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
    logits = torch.relu(states @ w0.T + b0) @ w2.T + b2"""
    first = list(start_ids(model.tokenizer))
    start = f"\nids[0] = {first} + ids[0]" if first else ""
    return f"""import torch
{imports}

folder = {name!r}  # of this model; or huggingface_hub.snapshot_download("owner/name")
question, steps = "What is 2 + 3 * 4?", ["3 * 4 = 12", "2 + 12 = 14"]
prompt = {TEMPLATES[0]!r}

tokenizer = {tokenizer}.from_pretrained(folder)
texts = [prompt.replace("{{q}}", question), *(step.strip() + "\\n" for step in steps)]
ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]{start}
ends = torch.tensor([len(piece) for piece in ids]).cumsum(0)[1:] - 1  # the last token of each step
with torch.inference_mode():
{read}
probabilities = logits.double().softmax(-1)[:, 1].tolist()  # of each step, that it is right
print(probabilities)"""


def _table(head: str, rows: Mapping[str, str]) -> str:
    lines = [f"| {head} | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    return "\n".join(lines)
