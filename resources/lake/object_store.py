"""An object store: bytes under names, listings, and writes that are refused where another writer was first.

create      PUT with If-None-Match: *        refused where there is an object
replace     PUT with If-Match: "5f0c…"       refused where it is not the one that was read
probe       the same, twice, on an object of its own: a store that takes the second create or replace is not used

Credentials, region and endpoint come from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`), as obstore reads them. What
a store or the library says in an error may hold pieces of them, so none of its words are passed on.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import obstore
from obstore import exceptions, store

from cpmi_dagster.errors import LakeError, PassingError, StorageError
from cpmi_dagster.files.environment import environment_variable
from cpmi_dagster.resources.lake.home_files import Size

RETRIES = {"max_retries": 6, "retry_timeout": timedelta(seconds=90)}
TIMES = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(minutes=10)}
STATUS = re.compile(r"status code: (\d{3})")
STREAM_BYTES = 8 * 2**20
SEVERAL = 1_000


class StoreError(StorageError, PassingError):
    """The store did not answer, or not as it should; it may the next time."""


class LateWrite(LakeError):
    """Somebody else has committed an object since this process looked at it."""


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

    def sizes(self, folder: str, after: str | None = None) -> dict[str, Size]:
        """The objects below a folder.

        Args:
            after: leaves out names up to this one.
        """
        with self._errors("listed"):
            pages = obstore.list(self._store, folder, offset=after, chunk_size=SEVERAL)
            return {
                found["path"]: Size(found["size"], found["last_modified"].timestamp())
                for page in pages
                for found in page
            }

    def read(self, name: str) -> bytes:
        """The bytes of an object.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._errors("read"):
            return bytes(obstore.get(self._store, name).bytes())

    def read_end(self, name: str, size: int, length: int) -> bytes:
        """The last bytes of an object of this size, which is never replaced.

        Raises:
            FileNotFoundError: there is none.
        """
        with self._errors("read"):
            return bytes(obstore.get_range(self._store, name, start=max(0, size - length), end=size))

    def download(self, name: str, path: Path) -> None:
        """Write an object to a file.

        Raises:
            FileNotFoundError: there is none.
        """
        with path.open("wb") as file:
            with self._errors("read"):
                parts = iter(obstore.get(self._store, name).stream(min_chunk_size=STREAM_BYTES))
            while part := self._next(parts):
                file.write(part)

    def _next(self, parts: Iterator[Any]) -> Any:
        with self._errors("read"):
            return next(parts, None)

    def create(self, name: str, data: bytes | bytearray) -> bool:
        """Put a new object in place with one request; False where there is one of this name."""
        return self._put(name, bytes(data), "create")

    def replace(self, name: str, change: Callable[[bytes | None], bytes]) -> bool:
        """Replace an object by what becomes of its bytes, None for no object; False where it has changed since."""
        try:
            with self._errors("read"):
                got = obstore.get(self._store, name)
                found, mode = bytes(got.bytes()), _is_still(got.meta)
        except FileNotFoundError:
            found, mode = None, "create"
        return self._put(name, change(found), mode)

    def write(self, name: str, data: bytes | bytearray) -> None:
        """Put an object in place with one request, over whatever is there."""
        self._put(name, bytes(data), "overwrite")

    def _put(self, name: str, data: bytes, mode: Any) -> bool:
        """Whether the store took the write."""
        try:
            with self._errors("written"):
                obstore.put(self._store, name, data, mode=mode, use_multipart=False)
        except LateWrite:
            # an answer that was lost makes the library ask again, and find its own write in the way
            with suppress(FileNotFoundError):
                return self.read(name) == data
            return False
        return True

    def upload(self, name: str, path: Path) -> None:
        """Put a file of any size under a name that nobody else writes."""
        with self._errors("written"):
            obstore.put(self._store, name, path)

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
            first = self._try(name, "create")
            if first is None:
                raise self._refused("it does not accept a new object with If-None-Match")
            if self._try(name, "create") is not None:
                raise self._refused(
                    "it accepted a second object of the same name, where If-None-Match should have stopped it"
                )
            if self._try(name, first) is None:
                raise self._refused("it does not accept a replacement with If-Match")
            if self._try(name, first) is not None:
                raise self._refused("it replaced an object that had changed, where If-Match should have stopped it")
        finally:
            self.delete([name])

    def _try(self, name: str, mode: Any) -> Any:
        """The condition that the object is still that of this write of the probe; None where it was refused."""
        try:
            with self._errors("written"):
                return _is_still(obstore.put(self._store, name, uuid4().bytes, mode=mode, use_multipart=False))
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


def _is_still(meta: Any) -> dict[str, str]:
    """The condition of a write that an object is still the one of these facts."""
    version = {} if meta["version"] is None else {"version": meta["version"]}
    return {"e_tag": meta["e_tag"] or "", **version}
