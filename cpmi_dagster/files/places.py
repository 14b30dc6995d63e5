"""Places as people write them: `~/data` is below the home of this user, `s3://bucket/prefix` on an object store.

s3://bucket/prefix    its objects are the home; copies, locks and Dagster's own files lie in a folder of this machine:
                      ~/.cache/cpmi-dagster/bucket-prefix-5f0c1f2a, or below CPMI_CACHE
"""

import re
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from cpmi_dagster.errors import SettingsError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.installed import DISTRIBUTION

CACHE_VARIABLE = "CPMI_CACHE"
SCHEMES = ("s3", "gs", "az")
# what every store and every file system takes in names
STORE_NAME = re.compile(r"[A-Za-z0-9][\w.\-/]*", re.ASCII)
HASH_CHARACTERS = 8

# characters that DuckDB, Polars or SQLite read as a pattern, a code or query of a URL, or a separator
UNUSABLE_IN_PATHS = re.compile(r"[%?*\[\]\\\x00-\x1f\x7f]")


def expanded(path: str | Path) -> Path:
    """The path with `~` and `~user` written out.

    Raises:
        SettingsError: this machine has no such user, or no path holds such a character.
    """
    if "\0" in str(path):
        raise SettingsError(f"the path {str(path)!r} contains a NUL character; remove it")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(f"the path {path} names a user unknown to this machine; write it in full") from error


def folder_for_all(path: str | Path) -> Path:
    """The path of a folder, whole, in which DuckDB, Polars and SQLite find a file by its name.

    Raises:
        SettingsError: it holds a character that one of them takes for a pattern, a separator or a code.
    """
    folder = expanded(path).absolute()
    if found := UNUSABLE_IN_PATHS.search(str(folder)):
        raise SettingsError(
            f"the home {folder} contains the character {found[0]!r}, which DuckDB, Polars or SQLite cannot handle "
            "in paths; set CPMI_HOME to a folder without it"
        )
    return folder


def home_of(place: str | Path) -> Path | str:
    """Where a home is: a folder, or the address of an object store.

    Raises:
        SettingsError: no home can be there, or the extra for object stores is not installed.
    """
    if "://" not in str(place):
        folder = folder_for_all(place)
        if folder.is_file():
            raise SettingsError(f"the home {folder} is a file; set CPMI_HOME to a folder")
        return folder
    scheme, _, rest = str(place).partition("://")
    # the address itself is not shown before it is known to hold no key
    if scheme.lower() not in SCHEMES:
        raise SettingsError(
            f"the home is not a folder, and does not begin with one of {', '.join(f'{name}://' for name in SCHEMES)}; "
            "correct CPMI_HOME"
        )
    name = rest.rstrip("/")
    if not STORE_NAME.fullmatch(name) or {"", ".", ".."} & set(name.split("/")):
        raise SettingsError(
            f"the home on an object store is written {scheme}://bucket/prefix, in letters, digits and ._-/ alone; keys "
            "come from the environment"
        )
    if find_spec("obstore") is None:
        raise SettingsError(
            f"the home {scheme}://{name} needs a package that is not installed; run `pip install "
            "'cpmi-dagster[store]'`, or set CPMI_HOME to a folder"
        )
    return f"{scheme.lower()}://{name}"


def local_folder(home: Path | str) -> Path:
    """The folder of this machine for a home: itself, or that of its copies.

    Raises:
        SettingsError: the folder of copies has a name that does not do; see `folder_for_all`.
    """
    if isinstance(home, Path):
        return home
    address = urlsplit(home)
    name = "-".join([address.netloc, *address.path.strip("/").split("/")]).strip("-")
    caches = environment_variable(CACHE_VARIABLE)
    if not caches:
        import platformdirs

        caches = platformdirs.user_cache_path(DISTRIBUTION)
    return folder_for_all(caches) / f"{name}-{sha256(home.encode()).hexdigest()[:HASH_CHARACTERS]}"
