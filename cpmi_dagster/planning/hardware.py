"""The hardware of `cpmi plan`: `hardware.yaml` next to this module, or a file of the same form.

h100-80gb:
  about: NVIDIA H100 SXM, 80 GB
  device: cuda
  teraflops: {float32: 67, bfloat16: 989, float16: 989}
  memory_gb: 80
  bandwidth_gb_per_s: 3350
  forward_utilisation: 0.4
  generation_utilisation: 0.25
  usd_per_hour: 2.95
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
from cpmi_dagster.models.names import Dtype
from cpmi_dagster.models.settings import LanguageModel

SHIPPED = Path(__file__).with_name("hardware.yaml")
GIGA, TERA = 1e9, 1e12


class Teraflops(Frozen):
    """Dense matrix rate by dtype, 10^12 FLOP/s."""

    float32: float = Field(gt=0)
    bfloat16: float = Field(gt=0)
    float16: float = Field(gt=0)


class Card(Frozen):
    """One card (or processor) as the table describes it."""

    about: str = ""
    device: Literal["cuda", "cpu"] = "cuda"
    teraflops: Teraflops
    memory_gb: float = Field(gt=0)
    bandwidth_gb_per_s: float = Field(gt=0)
    forward_utilisation: float = Field(gt=0, le=1)
    generation_utilisation: float = Field(gt=0, le=1)
    usd_per_hour: float = Field(ge=0)


class Hardware(Frozen):
    """A card and its name in the table."""

    name: str
    card: Card

    def flops(self, dtype: Dtype) -> float:
        """Dense matrix rate, FLOP/s."""
        return getattr(self.card.teraflops, dtype) * TERA

    @property
    def bandwidth(self) -> float:
        """Bytes per second of the card's memory."""
        return self.card.bandwidth_gb_per_s * GIGA


def default_hardware(labeler: LanguageModel) -> str:
    """`laptop-cpu` for the embedded world's models and for models on the CPU, else `h100-80gb`."""
    on_cpu = labeler.name.startswith(MINIATURE) or labeler.device == "cpu"
    return "laptop-cpu" if on_cpu else "h100-80gb"


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
    first = next(iter(table))
    wanted = name or first
    if wanted not in table or (name is None and len(table) > 1):
        raise SettingsError(f"hardware file {file} contains {', '.join(table)}; choose one, such as {file}:{first}")
    return _hardware(file, wanted, table[wanted])


def peak_flops(device: str, dtype: str) -> float | None:
    """Dense matrix rate of a card of the shipped table, FLOP/s, by the name that its driver gives it.

    NVIDIA H100 80GB HBM3    h100-80gb
    """
    words = re.split(r"[\s-]+", device.lower().replace("rtx ", "rtx"))
    for key, values in _table(SHIPPED).items():
        hardware = _hardware(SHIPPED, key, values)
        if hardware.card.device == "cuda" and key.partition("-")[0] in words:
            return getattr(hardware.card.teraflops, dtype, 0) * TERA or None
    return None


def _table(file: Path) -> Mapping[str, Any]:
    values = read_yaml(file)
    if not isinstance(values, dict) or not values:
        raise SettingsError(f"hardware file {file} must map names to their figures, as {SHIPPED} does")
    return {str(name): entry for name, entry in values.items()}


def _hardware(file: Path, name: str, values: Any) -> Hardware:
    try:
        return Hardware(name=name, card=Card.model_validate(values))
    except ValidationError as error:
        raise SettingsError(f"hardware file {file}, `{name}`: {_explain(error)}") from error


def _explain(error: ValidationError) -> str:
    key, reason, kind, given = first_complaint(error)
    if not key:
        return f"must map keys such as `usd_per_hour` to figures, as {SHIPPED} does"
    if kind == "missing":
        return f"the key `{key}` is missing; add it"
    if kind == "extra_forbidden":
        return f"`{key}` is not a key; remove it or check its spelling"
    return f"`{key}` is {given!r}: {reason}; change it"
