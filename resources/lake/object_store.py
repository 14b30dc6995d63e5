"""An object store: bytes under names, listings, and writes that are refused where another writer was first.

create      PUT with If-None-Match: *        refused where there is an object
replace     PUT with If-Match: "5f0c…"       refused where it is not the one that was read
probe       the same, twice, on an object of its own: a store that takes the second create or replace is not used

Credentials, region and endpoint come from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), as obstore reads them. What
a store or the library says in an error may hold pieces of them, so none of its words are passed on.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from uuid import uuid4

import obstore
from obstore import exceptions, store

from cpmi_dagster.errors import PassingError, StorageError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.resources.lake.home_files import NOTHING, LateWrite, Version

RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=90)}
TIMES = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(minutes=10)}
STATUS = re.compile(r"status code: (\d{3})")
STREAM_BYTES = 8 * 2**20
SEVERAL = 1_000


class StoreError(StorageError, PassingError):
    """The store did not answer, or not as it should; it may the next time."""


class Entry(NamedTuple):
    """An object as a listing has it."""

    version: Version
    size: int
    modified: float


class ObjectStore:
    """The objects below an address.

    Args:
        address: `s3://bucket/prefix`, `gs://…` or `az://…`; any name for a store that is given.
        objects: a store of obstore's; the one at the address by default.
    """

    def __init__(self, address: str, objects: Any = None) -> None:
        self.address = address
        with self._errors("opened"):
            self._store = objects or store.from_url(address, **_options())
        self._probed = False
        self._probing = Lock()

    def entries(self, folder: str, after: str | None = None) -> dict[str, Entry]:
        """The objects below a folder.

        Args:
            after: leaves out names up to this one.
        """
        with self._errors("listed"):
            pages = obstore.list(self._store, folder, offset=after, chunk_size=SEVERAL)
            return {found["path"]: _entry(found) for page in pages for found in page}

    def entry(self, name: str) -> Entry | None:
        """One object as it is now."""
        try:
            with self._errors("read"):
                return _entry(obstore.head(self._store, name))
        except FileNotFoundError:
            return None

    def read(self, name: str) -> bytes:
        """The bytes of an object.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._errors("read"):
            return bytes(obstore.get(self._store, name).bytes())

    def read_end(self, name: str, entry: Entry, length: int) -> bytes:
        """The last bytes of an object, in this version of it.

        Raises:
            LateWrite: there is another version.
            FileNotFoundError: there is none.
        """
        start = max(0, entry.size - length)
        with self._errors("read"):
            got = obstore.get(
                self._store, name, options={"range": (start, entry.size), "if_match": entry.version.e_tag}
            )
            return bytes(got.bytes())

    def download(self, name: str, path: Path) -> Entry:
        """Write an object to a file, and say which version it was.

        Raises:
            FileNotFoundError: there is none.
        """
        with path.open("wb") as file:
            with self._errors("read"):
                got = obstore.get(self._store, name)
                parts = iter(got.stream(min_chunk_size=STREAM_BYTES))
            while part := self._next(parts):
                file.write(part)
        return _entry(got.meta)

    def _next(self, parts: Iterator[Any]) -> Any:
        with self._errors("read"):
            return next(parts, None)

    def write(self, name: str, data: bytes | bytearray, over: Version | None = None) -> Version:
        """Put an object in place with one request.

        Args:
            over: the version to replace, `NOTHING` for a new object; any where it is None.

        Raises:
            LateWrite: there is another version.
        """
        mode = "overwrite" if over is None else _mode(over)
        content = bytes(data)
        try:
            with self._errors("written"):
                return _version(obstore.put(self._store, name, content, mode=mode, use_multipart=False))
        except LateWrite:
            # an answer that was lost makes the library ask again, and find its own write in the way
            found = self.entry(name)
            if found is not None and found.size == len(content) and self.read(name) == content:
                return found.version
            raise

    def upload(self, name: str, path: Path) -> Version:
        """Put a file of any size under a name that nobody else writes."""
        with self._errors("written"):
            return _version(obstore.put(self._store, name, path))

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there are not missed."""
        for start in range(0, len(names), SEVERAL):
            several = names[start : start + SEVERAL]
            try:
                self._delete(several)
            except FileNotFoundError:
                # some stores stop at the first that is missing, as where two machines clear the same folder
                for name in several:
                    with suppress(FileNotFoundError):
                        self._delete([name])

    def _delete(self, names: Sequence[str]) -> None:
        with self._errors("deleted"):
            obstore.delete(self._store, names)

    def check(self) -> None:
        """Probe the store, once a process.

        Raises:
            StorageError: it takes a write that it should refuse.
        """
        with self._probing:
            if not self._probed:
                self._probe(f".probe-{uuid4().hex}")
                self._probed = True

    def _probe(self, name: str) -> None:
        try:
            first = self._try(name, NOTHING)
            if first is None:
                raise self._refused("it does not accept a new object with If-None-Match")
            if self._try(name, NOTHING) is not None:
                raise self._refused(
                    "it accepted a second object of the same name, where If-None-Match should have stopped it"
                )
            if self._try(name, first) is None:
                raise self._refused("it does not accept a replacement with If-Match")
            if self._try(name, first) is not None:
                raise self._refused("it replaced an object that had changed, where If-Match should have stopped it")
        finally:
            self.delete([name])

    def _try(self, name: str, over: Version) -> Version | None:
        """The version of a write of the probe, each of other bytes; None where it was refused."""
        try:
            with self._errors("written"):
                put = obstore.put(self._store, name, uuid4().bytes, mode=_mode(over), use_multipart=False)
                return _version(put)
        except LateWrite:
            return None

    def _refused(self, reason: str) -> StorageError:
        return StorageError(
            f"the object store at {self.address} cannot hold a home: {reason}, so two runs could overwrite each "
            "other's labels; use one with conditional writes, such as S3, MinIO, Google Cloud Storage or Azure, or a "
            "folder"
        )

    @contextmanager
    def _errors(self, done: str) -> Iterator[None]:
        """Errors of the library in our words."""
        try:
            yield
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
            raise LateWrite(f"an object of {self.address} was changed by another process meanwhile") from None
        except (FileNotFoundError, exceptions.NotFoundError) as error:
            if done == "listed" or "NoSuchBucket" in str(error):
                raise StorageError(f"there is no bucket at {self.address}; make it, or correct CPMI_HOME") from None
            raise FileNotFoundError(self.address) from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise StorageError(
                f"{self.address} could not be {done}: the store refuses the credentials{_status(error)}; set those of "
                "an account that may list, read, write and delete there (AWS_…, GOOGLE_… or AZURE_… in the environment)"
            ) from None
        except (exceptions.NotSupportedError, NotImplementedError):
            raise self._refused("it has no conditional writes") from None
        except exceptions.BaseError as error:
            raise StoreError(
                f"{self.address} could not be {done}: {_kind(error)}{_status(error)}; check that the store can be "
                "reached, and that its endpoint, region and credentials are in the environment"
            ) from None


def _options() -> dict[str, Any]:
    """How requests are sent; options of a client replace what the environment allows it, so that is said again."""
    allowed = (environment_variable(f"{name}_ALLOW_HTTP") for name in ("AWS", "GOOGLE", "AZURE"))
    plain = any(value.lower() in ("true", "1", "yes") for value in allowed)
    return {"retry_config": RETRIES, "client_options": {**TIMES, "allow_http": plain}}


def _kind(error: Exception) -> str:
    return "the store does not answer" if "error sending request" in str(error) else "the store does not do it"


def _status(error: Exception) -> str:
    found = STATUS.search(str(error))
    return f" (HTTP {found[1]})" if found else ""


def _mode(over: Version) -> Any:
    if over == NOTHING:
        return "create"
    return {"e_tag": over.e_tag} if over.number is None else {"e_tag": over.e_tag, "version": over.number}


def _version(put: Any) -> Version:
    return Version(put["e_tag"] or "", put["version"])


def _entry(meta: Any) -> Entry:
    return Entry(Version(meta["e_tag"] or "", meta["version"]), meta["size"], meta["last_modified"].timestamp())
