"""Files of a home on a folder, in memory and on an S3-compatible server: what all of them keep to."""

import os
import shutil

import obstore
import polars as pl
import pytest
from obstore.store import MemoryStore

from cpmi_dagster.errors import StorageError
from cpmi_dagster.files.places import local_folder
from cpmi_dagster.resources.lake.chunk_store import LAST_OF_CHECKPOINT
from cpmi_dagster.resources.lake.home_files import NOTHING, LateWrite
from cpmi_dagster.resources.lake.homes import FolderFiles
from cpmi_dagster.resources.lake.lake import FileRecord, Lake
from cpmi_dagster.resources.lake.object_store import ObjectStore
from cpmi_dagster.resources.lake.store_files import StoreFiles

KEY = "labels/hard_negatives"
NAME = f"lake/{KEY}/shard=000.parquet"
ROWS = pl.DataFrame({"trajectory_id": ["t1", "t1"], "rank": [1, 2], "answer": ["3", "5"], "source": ["model", "+1"]})


@pytest.fixture(params=["memory", "s3"])
def stores(request, tmp_path):
    """Two machines' views of one store."""
    objects = MemoryStore() if request.param == "memory" else None
    address = "s3://memory/home" if objects else request.getfixturevalue("s3_home")
    return [StoreFiles(ObjectStore(address, objects), tmp_path / name) for name in ("one", "other")]


@pytest.fixture(params=["folder", "memory", "s3"])
def files(request, tmp_path):
    if request.param == "folder":
        return FolderFiles(tmp_path)
    objects = MemoryStore() if request.param == "memory" else None
    address = "s3://memory/home" if objects else request.getfixturevalue("s3_home")
    return StoreFiles(ObjectStore(address, objects), tmp_path)


def test_bytes_come_back_under_their_name(files):
    files.commit(NAME, b"one")
    files.commit(NAME, b"another")
    assert files.path(NAME).read_bytes() == b"another"
    assert files.tail(NAME).read_bytes() == b"another"
    assert files.exists(NAME)
    assert not files.exists(f"{NAME}x")
    assert not files.path(f"{NAME}x").exists()
    with pytest.raises(FileNotFoundError):
        files.tail(f"{NAME}x").read_bytes()


def test_a_folder_lists_its_files_without_what_is_hidden_or_deeper(files):
    for name in ("b.parquet", "a.parquet", ".c.parquet.tmp", "deeper/d.parquet"):
        files.commit(f"lake/labels/{name}", b"")
    files.commit("lake/labels_of_another/e.parquet", b"")
    assert [name for name in files.names("lake/labels") if name != "deeper"] == ["a.parquet", "b.parquet"]
    assert files.names("lake/nothing") == []


def test_chosen_folders_are_removed(files):
    for name in ("000-aa/1", "000-bb/1", "001-aa/1"):
        files.commit(f"lake/.work/{name}", b"")
    files.remove("lake/.work", lambda name: name.startswith("000-"))
    assert [files.exists(f"lake/.work/{name}") for name in ("000-aa/1", "000-bb/1", "001-aa/1")] == [False, False, True]


def test_a_write_over_another_version_is_refused(stores):
    one, other = stores
    before = one.version(NAME)
    assert before == NOTHING
    other.commit(NAME, b"first", before)
    with pytest.raises(LateWrite):
        one.commit(NAME, b"late", before)
    first = one.version(NAME)
    other.commit(NAME, b"second", first)
    with pytest.raises(LateWrite):
        one.commit(NAME, b"late", first)
    assert one.path(NAME).read_bytes() == b"second"


def test_a_write_whose_answer_was_lost_is_no_late_one(stores):
    one, _ = stores
    before = one.version(NAME)
    one.commit(NAME, b"mine", before)
    one.commit(NAME, b"mine", before)
    assert one.path(NAME).read_bytes() == b"mine"


def test_what_another_machine_writes_and_removes_is_seen(stores):
    one, other = stores
    for data in (b"1", b"two"):
        one.commit(NAME, data)
        other.look_again()
        assert other.path(NAME).read_bytes() == data
    other.fetch("lake")
    one._objects.delete([NAME])
    other.look_again()
    other.fetch("lake")
    assert not (other.folder / NAME).exists()


def test_a_copy_that_was_changed_on_disk_is_fetched_again(stores):
    one, _ = stores
    one.commit(NAME, b"rows")
    one.path(NAME).write_bytes(b"other rows")
    assert one.path(NAME).read_bytes() == b"rows"


def test_the_end_of_a_large_file_is_enough_for_its_record(stores, tmp_path):
    one, other = stores
    rows = pl.DataFrame({"number": range(300_000)})
    rows.write_parquet(tmp_path / "rows.parquet", metadata={"cpmi": "{}"})
    one.commit(NAME, (tmp_path / "rows.parquet").read_bytes())
    assert pl.read_parquet_metadata(other.tail(NAME))["cpmi"] == "{}"
    assert other.tail(NAME).stat().st_size == 2**16
    footer = "x" * 2**17
    rows.write_parquet(tmp_path / "rows.parquet", metadata={"cpmi": footer})
    one.commit(NAME, (tmp_path / "rows.parquet").read_bytes())
    other.look_again()
    assert pl.read_parquet_metadata(other.tail(NAME))["cpmi"] == footer
    assert not (other.folder / NAME).exists()


def test_folders_are_kept_whole_for_their_record(stores):
    one, other = stores
    for name in ("models/m/config.json", "models/m/sub/weights", "report/index.html"):
        (one.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (one.folder / name).write_text(name)
    model, report = one.keep(["models/m", "report/index.html"])
    assert other.exists(model)
    assert (other.path(model) / "sub" / "weights").read_text() == "models/m/sub/weights"
    assert not other.exists("report/index.html")
    one.show([model, report])
    other.look_again()
    assert other.path("report/index.html").read_text() == "report/index.html"
    one.drop([model, report])
    other.look_again()
    assert not other.exists(model)


def test_a_file_that_cannot_be_used_is_replaced_in_its_version(stores):
    one, other = stores
    one.commit(NAME, b"damaged")
    before = one.version(NAME)
    assert one.put_aside(NAME, "lake/.damaged/rows").endswith("lake/.damaged/rows")
    assert not one.exists(NAME)
    assert one.names(f"lake/{KEY}") == []
    other.commit(NAME, b"mended by another")
    with pytest.raises(LateWrite):
        one.commit(NAME, b"late", before)
    assert one.path(NAME).read_bytes() == b"mended by another"
    assert one.path("lake/.damaged/rows").read_bytes() == b"damaged"


@pytest.mark.parametrize(
    ("ignored", "reason"), [(str, "accepted a second object"), (dict, "replaced an object that had")]
)
def test_a_store_that_takes_what_it_should_refuse_is_refused_by_name(monkeypatch, ignored, reason):
    objects, put = MemoryStore(), obstore.put

    def careless(store, name, data, *, mode="overwrite", **options):
        return put(store, name, data, mode="overwrite" if isinstance(mode, ignored) else mode, **options)

    monkeypatch.setattr(obstore, "put", careless)
    with pytest.raises(StorageError, match=rf"s3://careless/home cannot hold a home: it {reason}.* use one with"):
        ObjectStore("s3://careless/home", objects).check()
    assert not obstore.list(objects).collect()


def test_a_store_is_probed_once_and_the_probe_is_gone(stores, monkeypatch):
    one, _ = stores
    one.check()
    monkeypatch.setattr(obstore, "put", None)
    one.check()
    assert not one._objects.entries("")


def test_rows_and_their_record_are_committed_with_one_put(s3_home, monkeypatch):
    lake, puts = Lake(s3_home), []
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *args, **options: (puts.append(args[1]), put(*args, **options))[1])
    lake.write(ROWS, FileRecord(KEY, "000", "f", "r", "m", "1"))
    assert puts == [NAME]
    assert lake.read(KEY, "000").equals(ROWS)
    assert lake.record(KEY, "000").fingerprint == "f"
    assert lake.partitions(KEY) == ["000"]
    assert local_folder(s3_home) == lake.folder


def test_credentials_are_in_no_error(s3_variables, s3_home, monkeypatch):
    store = ObjectStore(s3_home.replace("cpmi-tests", "no-such-bucket"))
    with pytest.raises(StorageError, match="there is no bucket at s3://no-such-bucket/"):
        store.write("a", b"")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("cpmi_dagster.resources.lake.object_store.RETRIES", {"max_retries": 0})
    with pytest.raises(StorageError) as found:
        ObjectStore(s3_home).entry("a")
    error = found.value
    assert error.__cause__ is None and error.__suppress_context__
    assert "does not answer" in str(error)
    assert not any(value in str(error) for name, value in s3_variables.items() if "KEY" in name)


def test_checkpoints_are_committed_when_they_are_whole_and_continue_elsewhere(stores, tmp_path):
    one, other = stores
    name = "lake/.work/models/m/all-f/checkpoints"

    def write(step: int, *files: str) -> None:
        for file in files:
            path = one.folder / name / f"checkpoint-{step}" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{step} {file}")

    write(40, "model.safetensors", "adapters/a.bin", LAST_OF_CHECKPOINT)
    write(80, "model.safetensors")
    one.push(name, LAST_OF_CHECKPOINT)
    other.pull(name)
    assert sorted(path.name for path in (other.folder / name).iterdir()) == ["checkpoint-40"]
    assert (other.folder / name / "checkpoint-40" / "adapters" / "a.bin").read_text() == "40 adapters/a.bin"
    write(80, LAST_OF_CHECKPOINT)
    shutil.rmtree(one.folder / name / "checkpoint-40")
    one.push(name, LAST_OF_CHECKPOINT)
    other.pull(name)
    assert _files(other, f"{name}/checkpoint-80") == ["model.safetensors", LAST_OF_CHECKPOINT]
    assert list(one._objects.entries(name)) == [f"{name}/checkpoint-80.tar"]


def test_machines_that_write_the_same_checkpoint_never_mix_their_files(stores, tmp_path):
    name = "lake/.work/models/m/all-f/checkpoints"
    third = StoreFiles(stores[0]._objects, tmp_path / "third")
    for files, own in zip(stores, ("one.bin", "other.bin"), strict=True):
        for file in (own, LAST_OF_CHECKPOINT):
            path = files.folder / name / "checkpoint-40" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(own)
        files.push(name, LAST_OF_CHECKPOINT)
    third.pull(name)
    assert _files(third, f"{name}/checkpoint-40") == ["one.bin", LAST_OF_CHECKPOINT]
    # the second has gone on; the first still goes on from the first checkpoint
    shutil.rmtree(stores[1].folder / name / "checkpoint-40")
    stores[1].push(name, LAST_OF_CHECKPOINT)
    assert list(third._objects.entries(name)) == [f"{name}/checkpoint-40.tar"]


def test_a_damaged_copy_of_an_intact_object_is_fetched_again(stores):
    lakes = [Lake(files.folder) for files in stores]
    for lake, files in zip(lakes, stores, strict=True):
        lake.files = files
    record = FileRecord(KEY, "000", "f", "r", "m", "1")
    lakes[0].write(ROWS, record)
    copy = lakes[1].path(KEY, "000")
    before = copy.stat()
    copy.write_bytes(copy.read_bytes()[:-9] + b"x" * 9)
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = []
    lakes[1].tidy(KEY, "000", said.append)
    assert not said
    assert lakes[1].read(KEY, "000").equals(ROWS)


def _files(files: StoreFiles, folder: str) -> list[str]:
    place = files.folder / folder
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
