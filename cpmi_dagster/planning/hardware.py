"""Cards (or processors) for `cpmi plan`: `hardware.yaml` next to this module, which explains its keys, or another file.

Qwen3-8B in bfloat16 (body P = 6.95e9, head H = 0.62e9, keys and values of 147,456 bytes a token) on an H100:

    1e6 tokens read, 1e5 of them projected     (2 P 1e6 + 2 H 1e5) FLOP / (989e12 x 0.4)             = 35 s
    1e5 tokens generated, 256 side by side,    2 (P + H) 1e5 FLOP / 989e12                           = 1.5 s
    each attending to 300                      (16.4e9 x 1e5 / 256 + 147,456 x 3e7) B / 3.35e12      = 3.2 s
                                               the larger of the two / 0.25                          = 13 s
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from cpmi_dagster.contracts.frozen import Frozen
from cpmi_dagster.errors import SettingsError, first_complaint
from cpmi_dagster.files.yaml_files import read_yaml
from cpmi_dagster.miniature.names import MINIATURE
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.planning.shapes import ModelShape

SHIPPED = Path(__file__).with_name("hardware.yaml")
GIGA, TERA = 1e9, 1e12
FLOPS_PER_PARAMETER = 2
"""Of a token: one multiplication and one addition."""


class Teraflops(Frozen):
    """Dense matrix rate by dtype, 10^12 FLOP/s."""

    float32: float = Field(gt=0)
    bfloat16: float = Field(gt=0)
    float16: float = Field(gt=0)


class Hardware(Frozen):
    """An entry of the table, with its name."""

    name: str
    about: str = ""
    device: Literal["cuda", "cpu"] = "cuda"
    teraflops: Teraflops
    memory_gb: float = Field(gt=0)
    bandwidth_gb_per_s: float = Field(gt=0)
    forward_utilisation: float = Field(gt=0, le=1)
    generation_utilisation: float = Field(gt=0, le=1)
    usd_per_hour: float = Field(ge=0)

    def seconds(
        self, shape: ModelShape, read: int, projected: int, generated: int = 0, attended: float = 0, batch: int = 1
    ) -> float:
        """Seconds of reading, 2 (body read + head projected) FLOP, and of generating; attention is left out.

        Generation takes the larger of 2 (body + head) FLOP a token and the bytes that move through memory: the weights
        once a batch, and the keys and values of every position attended to.

        Args:
            read: tokens read many at a time.
            projected: those of them whose output is projected to the vocabulary.
            generated: tokens sampled one at a time.
            attended: positions that these attend to, summed.
            batch: continuations sampled side by side.
        """
        rate, bandwidth = getattr(self.teraflops, shape.dtype) * TERA, self.bandwidth_gb_per_s * GIGA
        reading = FLOPS_PER_PARAMETER * (shape.body * read + shape.head * projected) / rate
        generating = FLOPS_PER_PARAMETER * (shape.body + shape.head) * generated / rate
        moving = (shape.weight_bytes * generated / batch + shape.cache_bytes * attended) / bandwidth
        return reading / self.forward_utilisation + max(generating, moving) / self.generation_utilisation


def default_hardware(labeler: LanguageModel) -> str:
    """What `cpmi run` would label with here: this machine's card, `h100-80gb` for one that the table lacks.

    `laptop-cpu` where there is no card, and for models that are on the CPU or of the embedded world.
    """
    import torch

    if labeler.name.startswith(MINIATURE) or labeler.device == "cpu" or not torch.cuda.is_available():
        return "laptop-cpu"
    card = _card_named(torch.cuda.get_device_name())
    return card.name if card else "h100-80gb"


def load_hardware(chosen: str) -> Hardware:
    """The hardware of that name.

    Args:
        chosen: a name in the shipped table, `FILE.yaml` with one entry, or `FILE.yaml:NAME`.

    Raises:
        SettingsError: there is no such name or file, or an entry has a missing, unknown or wrong key.
    """
    shipped = _table(SHIPPED)
    if chosen in shipped:
        return _hardware(SHIPPED, chosen, shipped[chosen])
    path, _, name = (chosen, "", None) if Path(chosen).is_file() else chosen.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise SettingsError(
            f"there is no hardware `{chosen}`; give one of {', '.join(shipped)}, or a YAML file like {SHIPPED}"
        )
    table = _table(file)
    wanted = name or next(iter(table))
    if wanted not in table or (name is None and len(table) > 1):
        raise SettingsError(f"hardware file {file} contains {', '.join(table)}; choose one with {file}:NAME")
    return _hardware(file, wanted, table[wanted])


def peak_flops(device: str, dtype: str) -> float | None:
    """Dense matrix rate of a card of the shipped table, FLOP/s, by the name that its driver gives it.

    NVIDIA H100 80GB HBM3    h100-80gb
    """
    card = _card_named(device)
    return getattr(card.teraflops, dtype, 0) * TERA or None if card else None


def _card_named(device: str) -> Hardware | None:
    words = re.split(r"[\s-]+", device.lower().replace("rtx ", "rtx"))
    cards = (_hardware(SHIPPED, name, values) for name, values in _table(SHIPPED).items())
    return next((card for card in cards if card.device == "cuda" and card.name.partition("-")[0] in words), None)


def _table(file: Path) -> Mapping[str, Any]:
    values = read_yaml(file)
    if not isinstance(values, dict) or not values:
        raise SettingsError(f"hardware file {file} must map names to their figures, as {SHIPPED} does")
    return values


def _hardware(file: Path, name: str, values: Any) -> Hardware:
    where = f"hardware file {file}, `{name}`"
    if not isinstance(values, dict):
        raise SettingsError(f"{where}: must map keys such as `usd_per_hour` to figures, as {SHIPPED} does")
    try:
        return Hardware.model_validate({**values, "name": name})
    except ValidationError as error:
        key, reason, kind, given = first_complaint(error)
        known = {"missing": "is missing; add it", "extra_forbidden": "is not a key; check its spelling"}
        raise SettingsError(f"{where}: `{key}` {known.get(kind, f'is {given!r}: {reason}; change it')}") from error
