"""Load a causal language model with its tokenizer and its identity.

`LoadedModel.identity`, the `labeler` column of tables:

    Qwen/Qwen3-8B-Base@49e3418fbbbc            hub id @ first 12 characters of the commit
    miniature:labeler@5f0c1f2a9b1d             local folder @ first 12 characters of the weights' sha256
    smollm2.gguf@8fc1a9e07d52                  GGUF file @ first 12 characters of its sha256
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpmi_dagster.errors import ModelError, first_line
from cpmi_dagster.files.file_states import file_digest
from cpmi_dagster.miniature.names import MINIATURE, MODEL_FOLDERS
from cpmi_dagster.models.gguf import PACKAGE, convert_gguf, fetch_gguf, gguf_file, hub_file
from cpmi_dagster.models.model_files import READ_BESIDE_WEIGHTS, reading_hash, weights_files, weights_hash
from cpmi_dagster.models.processors import resolve_device
from cpmi_dagster.models.safe_loading import DATA_ONLY, SAFE_WEIGHTS, check_loaded, copy_mapped, reading_model

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

IDENTITY_CHARACTERS = 12
HUB_SECONDS = 10.0
TOKENIZER = "tokenizer.json"
TOKENIZER_ADVICE = "put tokenizer.json and tokenizer_config.json next to its weights"


@dataclass(frozen=True)
class LoadedModel:
    """A causal language model in evaluation mode, its tokenizer and its identity.

    `cache` has facts about the model within the process, such as the batch size that fits.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    identity: str
    context_length: int
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def device(self) -> "torch.device":
        """Device of the model's inputs."""
        return self.model.device


def model_folder(name: str) -> str:
    """The folder or hub id to load for a model name; a GGUF file is converted first.

    Raises:
        ModelError: there is no such package, file or embedded model, or a GGUF file cannot be converted.
    """
    place = model_place(name)
    return str(convert_gguf(Path(place))) if gguf_file(name) else place


def model_place(name: str) -> str:
    """The folder, GGUF file or hub id of a model name.

    Raises:
        ModelError: there is no such package, file or embedded model.
    """
    if file := gguf_file(name):
        return str(file)
    if not name.startswith(MINIATURE):
        return name
    part = name.removeprefix(MINIATURE)
    if part not in MODEL_FOLDERS:
        raise ModelError(f"the embedded world has no model `{part}`; it has {', '.join(MODEL_FOLDERS)}")
    return str(MODEL_FOLDERS[part])


def model_identity(name: str, revision: str | None = None) -> str:
    """`name@revision`, with the hash of the weights as the revision of a local folder or GGUF file.

    Args:
        name: local folder, GGUF file, `package:NAME/FILE.gguf`, `miniature:NAME`, or hub id.
        revision: hub commit; ignored for local models.

    Raises:
        ModelError: the local folder has no safetensors weights.
    """
    if file := gguf_file(name):
        short_name = name if name.startswith(PACKAGE) or hub_file(name) else file.name
        return f"{short_name}@{file_digest(file)[:IDENTITY_CHARACTERS]}"
    folder = Path(model_folder(name))
    if not folder.is_dir():
        return f"{name}@{(revision or 'main')[:IDENTITY_CHARACTERS]}"
    short_name = name if name.startswith(MINIATURE) else Path(name).name
    return f"{short_name}@{weights_hash(folder)[:IDENTITY_CHARACTERS]}"


def reading_identity(name: str) -> str:
    """The hash of config and tokenizer of a local folder; empty for other models, whose identity covers them."""
    folder = Path(model_place(name) if name.startswith(MINIATURE) else name)
    return reading_hash(folder)[:IDENTITY_CHARACTERS] if folder.is_dir() else ""


def model_on_disk(name: str) -> Path | None:
    """The folder or GGUF file of a local model, which is checked but not loaded; None for a hub id.

    Raises:
        ModelError: the name is invalid, or the folder lacks config.json, safetensors weights or a tokenizer.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    if (file := gguf_file(name)) or hub_file(name):
        return file
    place = model_folder(name)
    _check_folder(place)
    if Path(place).is_dir():
        return Path(place)
    try:
        validate_repo_id(place)
    except HFValidationError as error:
        raise ModelError(f"model `{name}` is neither a folder here nor a hub id such as Qwen/Qwen3-8B-Base") from error
    return None


def weights_here(name: str, revision: str | None = None) -> list[Path]:
    """The weights files of a model that are on this disk; nothing is fetched.

    Raises:
        ModelError: the model is a hub id whose files are not in the hub's cache; or as `model_on_disk`.
    """
    from huggingface_hub import snapshot_download

    if model_on_disk(name):
        return weights_files(Path(model_folder(name)))
    try:
        return weights_files(Path(snapshot_download(name, revision=revision, local_files_only=True)))
    except (OSError, ModelError) as error:
        raise ModelError(f"model `{name}` has not been downloaded yet") from error


def load_language_model(
    name: str | Path,
    revision: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    device_map: str | None = None,
) -> LoadedModel:
    """Load weights and tokenizer.

    Args:
        name: local folder, GGUF file, `package:NAME/FILE.gguf`, `miniature:NAME`, or hub id.
        revision: hub commit, branch or tag; the default branch if None.
        dtype: auto, float32, bfloat16 or float16.
        device: auto (CUDA if available), or a torch device.
        device_map: accelerate's, for a model larger than one device (auto, balanced, ...); replaces `device`.

    Raises:
        ModelError: files are missing, unreadable, or changed during loading.
    """
    # read once, at torch's first allocation; with 4 kB pages a tenth of a pass goes into page faults
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    from huggingface_hub import ResolvedRevision
    from transformers import AutoModelForCausalLM
    from transformers.utils.hub import resolve_revision

    fetch_gguf(str(name))
    place = model_folder(str(name))
    _check_folder(place)
    check_hub(place, revision)
    resolved = resolve_revision(place, revision)
    # the commit if known, so that weights, tokenizer and identity are of the same one
    revision = resolved.resolved if isinstance(resolved, ResolvedRevision) else revision
    identity, reading = model_identity(str(name), revision), reading_identity(str(name))
    tokenizer = load_tokenizer(place, revision)
    check_device(str(name), device)
    target = resolve_device(device)
    # straight to the GPU: the host's memory may not hold the weights of several processes
    straight = {"": target} if target.startswith("cuda") else None
    with reading_model(f"model `{name}`"):
        read: Any = AutoModelForCausalLM.from_pretrained(
            place,
            revision=revision or "main",
            dtype=dtype,
            device_map=device_map or straight,
            **DATA_ONLY,
            **SAFE_WEIGHTS,
        )
    model, report = read
    check_loaded(f"model `{name}`", report)
    model = copy_mapped(model if device_map else model.to(target)).eval()
    context_length = int(getattr(model.config.get_text_config(), "max_position_embeddings", 1 << 30))
    if (model_identity(str(name), revision), reading_identity(str(name))) != (identity, reading):
        raise ModelError(f"the files of model `{name}` changed while they were read; run again")
    return LoadedModel(model, tokenizer, identity, context_length)


def model_snapshot(name: str, revision: str | None = None) -> Path:
    """The folder of a hub id in the hub's cache, fetched if needed, named by the commit; no code, no pickles.

    Raises:
        ModelError: the hub has no such model, or cannot be reached.
    """
    from huggingface_hub import snapshot_download

    _check_folder(name)
    check_hub(name, revision)
    files = [f"*{suffix}" for suffix in (".safetensors", *READ_BESIDE_WEIGHTS)]
    with reading_model(f"model `{name}`"):
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))


def load_tokenizer(place: str, revision: str | None = None) -> "PreTrainedTokenizerBase":
    """The tokenizer of a folder or hub id: that of its file tokenizer.json if it has one.

    Raises:
        ModelError: there is no tokenizer, or it is unreadable.
    """
    from huggingface_hub import try_to_load_from_cache
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    is_folder = Path(place).is_dir()
    if is_folder:
        _check_tokenizer(Path(place))
    of: dict[str, Any] = {"revision": revision or "main", **DATA_ONLY}
    with reading_model(f"the tokenizer of `{place}`", TOKENIZER_ADVICE):
        usual = AutoTokenizer.from_pretrained(place, **of)
        cached = None if is_folder else try_to_load_from_cache(place, TOKENIZER, revision=of["revision"])
        has_file = isinstance(cached, str) or Path(place, TOKENIZER).is_file()
        if type(usual) is PreTrainedTokenizerFast or not usual.is_fast or not has_file:
            return usual
        # the class of an architecture may build another one from the file's vocabulary, with other ends of words
        tokenizer = PreTrainedTokenizerFast.from_pretrained(place, **of)
        vocabulary = tokenizer.get_vocab()
        for name in ("bos_token", "eos_token"):
            if getattr(tokenizer, name) is None and getattr(usual, name) in vocabulary:
                setattr(tokenizer, name, getattr(usual, name))
        return tokenizer


def check_device(name: str, device: str) -> None:
    """Raise a ModelError for a device that torch does not know or this machine lacks."""
    if device == "auto":
        return
    import torch

    try:
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = first_line(error)
        raise ModelError(f"model `{name}` cannot go to device `{device}` ({reason}); give another, or auto") from error


def check_hub(name: str, revision: str | None) -> None:
    """Ask the hub once for a model that is not on this disk; loading would retry for a minute.

    Raises:
        ModelError: the hub has no such model, or cannot be reached.
    """
    from httpx2 import HTTPError
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if Path(name).is_dir():
        return
    try:
        if not isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
            HfApi().model_info(name, revision=revision, timeout=HUB_SECONDS)
    except (HTTPError, HFValidationError, OSError) as error:
        raise ModelError(
            f"model `{name}` is not on this disk, and cannot be fetched from the hub ({type(error).__name__}); name a "
            "local folder, or check that the hub can be reached (HF_TOKEN for a private model)"
        ) from error


def _check_folder(place: str) -> None:
    folder = Path(place)
    if folder.is_file():
        raise ModelError(f"model `{place}` is a file, but not GGUF; give a GGUF file, a model folder or a hub id")
    if place.startswith((".", "/", "~")) and not folder.is_dir():
        raise ModelError(f"model folder {folder} does not exist; give a local folder, a hub id or miniature:labeler")
    if not folder.is_dir():
        return
    if not (folder / "config.json").is_file():
        raise ModelError(f"model folder {folder} has no config.json; save it with `save_pretrained`")
    weights_files(folder)
    _check_tokenizer(folder)


def _check_tokenizer(folder: Path) -> None:
    """Refuse a folder without a tokenizer: `transformers` would make an empty one."""
    if not any(folder.glob("*token*")) and not any(folder.glob("vocab*")):
        raise ModelError(f"model folder {folder} has no tokenizer; {TOKENIZER_ADVICE}")
