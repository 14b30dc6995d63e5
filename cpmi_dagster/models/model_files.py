"""The files that loading a model's folder reads: weights, config, tokenizer.

model.safetensors                                            all weights, if it is there
model.safetensors.index.json, model-00001-of-00002.…         the shards that the index names, and no others
adapter_config.json, adapter_model.safetensors               an adapter beside them, or alone
config.json, tokenizer.json, merges.txt, chat_template.jinja
cpmi_digests.json                                            of a trained model: {"config.json": "5f0c…", …}
"""

import json
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cpmi_dagster.errors import ModelError
from cpmi_dagster.files.file_states import file_digest

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
DIGESTS = "cpmi_digests.json"
READ_BESIDE_WEIGHTS = (".json", ".txt", ".model", ".jinja", ".tiktoken")


def check_weights_index(folder: Path) -> set[str]:
    """The files in a folder's index of weights; empty without an index.

    Raises:
        ModelError: the index is invalid, or names a file outside the folder.
    """
    index = folder / INDEX
    if not index.is_file():
        return set()
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{index} is not an index of weights; save the model again with `save_pretrained`") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise ModelError(f"{index} names the file {name!r}; weights are *.safetensors files in the model's folder")
    return names


def weights_files(folder: Path) -> list[Path]:
    """The safetensors files that loading reads, in name order.

    Raises:
        ModelError: there are none, or one is missing.
    """
    indexed = check_weights_index(folder)
    names = {WEIGHTS} if (folder / WEIGHTS).is_file() else indexed
    if (folder / ADAPTER_CONFIG).is_file():
        names = {*names, ADAPTER}
    files = [folder / name for name in sorted(names)]
    missing = [file.name for file in files if not file.is_file()]
    if not files or missing:
        what = f"lacks {missing[0]}" if missing else "has no *.safetensors weights"
        raise ModelError(f"model folder {folder} {what}; save it with `save_pretrained`")
    return files


def weights_hash(folder: Path) -> str:
    """Sha256 over the files of `weights_files`; raises as it does."""
    return sha256(b"".join(bytes.fromhex(file_digest(file)) for file in weights_files(folder))).hexdigest()


def reading_hash(folder: Path) -> str:
    """Sha256 over config and tokenizer files."""
    files = [file for file in sorted(folder.iterdir()) if file.suffix in READ_BESIDE_WEIGHTS and file.is_file()]
    lines = [f"{file.name} {file_digest(file)}\n" for file in files if file.name != INDEX]
    return sha256("".join(lines).encode()).hexdigest()


def write_digests(folder: Path) -> None:
    """Write the sha256 of every file that loading may read."""
    (folder / DIGESTS).write_text(json.dumps(_digests(folder), indent=2) + "\n", encoding="utf-8")


def check_digests(folder: Path) -> None:
    """Refuse a folder whose files differ from the digests of `write_digests`, if there are any.

    Raises:
        ModelError: a file was damaged, changed, removed or added; the message names it.
    """
    if not (folder / DIGESTS).is_file():
        return
    damaged = "is not as training wrote it; copy the folder again, or train the model again"
    try:
        noted = TypeAdapter(dict[str, str]).validate_json((folder / DIGESTS).read_bytes())
    except ValidationError as error:
        raise ModelError(f"{folder / DIGESTS} {damaged}") from error
    if others := sorted({name for name, _ in noted.items() ^ _digests(folder).items()}):
        raise ModelError(f"{folder / others[0]} {damaged}")


def check_trained(folder: Path, fingerprint: str) -> None:
    """`check_digests`, and refuse weights with another hash than `fingerprint`."""
    check_digests(folder)
    if weights_hash(folder) != fingerprint:
        raise ModelError(
            f"the weights in {folder} are not those that were trained: other settings, or another "
            "profile of this home, may have trained a recipe of this name since; train the model again"
        )


def _digests(folder: Path) -> dict[str, str]:
    read = (".safetensors", *READ_BESIDE_WEIGHTS)
    files = (file for file in folder.iterdir() if file.is_file() and file.suffix in read and file.name != DIGESTS)
    return {file.name: file_digest(file) for file in files}
