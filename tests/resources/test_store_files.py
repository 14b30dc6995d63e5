"""Files of a home on a folder, in memory and on an S3-compatible server: what all of them keep to."""

import os
import shutil
import time

import obstore
import polars as pl
import pytest
from obstore.store import MemoryStore

from cpmi_dagster.errors import LakeError, StorageError
from cpmi_dagster.files.places import local_folder
from cpmi_dagster.resources.lake.chunk_store import LAST_OF_CHECKPOINT
from cpmi_dagster.resources.lake.home_files import HomeFiles
from cpmi_dagster.resources.lake.lake import Lake
from cpmi_dagster.resources.lake.object_store import ObjectStore
from cpmi_dagster.resources.lake.records import FileRecord
from cpmi_dagster.resources.lake.store_files import StoreFiles

KEY = "labels/hard_negatives"
NAME = f"lake/{KEY}/000/5f0c.parquet"
LIST = "lake/.current/mine.json"
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
        return HomeFiles(tmp_path)
    objects = MemoryStore() if request.param == "memory" else None
    address = "s3://memory/home" if objects else request.getfixturevalue("s3_home")
    return StoreFiles(ObjectStore(address, objects), tmp_path)


def test_a_file_is_created_once_and_its_bytes_come_back_under_its_name(files):
    assert files.create(NAME, b"one")
    assert not files.create(NAME, b"another")
    assert files.path(NAME).read_bytes() == b"one"
    assert files.tail(NAME).read_bytes() == b"one"
    assert files.exists(NAME)
    assert not files.exists(f"{NAME}x")
    assert not files.path(f"{NAME}x").exists()
    with pytest.raises(FileNotFoundError):
        files.tail(f"{NAME}x").read_bytes()


def test_a_file_that_changes_is_read_as_it_is_now(files):
    for read in (files.read, files.glance):
        with pytest.raises(FileNotFoundError):
            read(LIST)
    files.write(LIST, b"one")
    assert files.glance(LIST) == files.glance(LIST) == b"one"
    files.write(LIST, b"two")
    files.look_again()
    assert files.read(LIST) == files.glance(LIST) == b"two"
    files.update(LIST, lambda found: found + b" three")
    assert files.read(LIST) == files.glance(LIST) == b"two three"
    files.update("hub.lock.json", lambda found: str(found).encode())
    assert files.read("hub.lock.json") == b"None"


def test_a_folder_lists_its_files_without_what_is_hidden_or_deeper(files):
    for name in ("b.parquet", "a.parquet", ".c.parquet.tmp", "deeper/d.parquet"):
        files.write(f"lake/labels/{name}", b"12")
    files.write("lake/labels_of_another/e.parquet", b"")
    assert [name for name in files.names("lake/labels") if name != "deeper"] == ["a.parquet", "b.parquet"]
    assert files.names("lake/nothing") == []
    sizes = files.sizes("lake/labels")
    assert {name.removeprefix("lake/labels/") for name in sizes} == {
        "b.parquet",
        "a.parquet",
        ".c.parquet.tmp",
        "deeper/d.parquet",
    }
    assert {size.size for size in sizes.values()} == {2}
    assert all(abs(size.modified - time.time()) < 60 for size in sizes.values())


def test_files_and_chosen_folders_are_removed(files):
    for name in ("000-aa/1", "000-bb/1", "001-aa/1", "001-bb/1"):
        files.write(f"lake/.work/{name}", b"")
    files.remove_folders("lake/.work", lambda name: name.startswith("000-"))
    files.remove(["lake/.work/001-bb/1", "lake/.work/001-bb/2"])
    assert list(files.sizes("lake/.work")) == ["lake/.work/001-aa/1"]
    assert not files.exists("lake/.work/001-bb/1")


def test_who_is_late_changes_what_another_machine_has_written(stores):
    one, other = stores
    said = []

    def change(found):
        said.append(found)
        if len(said) == 1:
            other.write(LIST, b"first")
        return (found or b"") + b" second"

    one.update(LIST, change)
    assert said == [None, b"first"]
    assert other.read(LIST) == b"first second"


def test_a_file_of_another_machine_is_seen_and_stays(stores):
    one, other = stores
    assert not other.exists(NAME)
    assert one.create(NAME, b"first")
    assert not other.create(NAME, b"late")
    assert other.exists(NAME)
    assert other.path(NAME).read_bytes() == b"first"


def test_a_create_whose_answer_was_lost_is_no_late_one(stores):
    one, _ = stores
    assert one.create(NAME, b"mine")
    assert one.create(NAME, b"mine")


def test_a_damaged_copy_is_fetched_again_when_it_is_forgotten(stores):
    one, _ = stores
    one.create(NAME, b"rows")
    one.path(NAME).write_bytes(b"other rows")
    assert one.forget(NAME)
    assert not one.forget(NAME)
    assert one.path(NAME).read_bytes() == b"rows"


def test_the_end_of_a_large_file_is_enough_for_its_record(stores, tmp_path):
    one, other = stores
    rows = pl.DataFrame({"number": range(300_000)})
    for name, footer, size in ((NAME, "{}", 2**16), (f"{NAME}x", "x" * 2**17, None)):
        rows.write_parquet(tmp_path / "rows.parquet", metadata={"cpmi": footer})
        one.create(name, (tmp_path / "rows.parquet").read_bytes())
        other.look_again()
        assert pl.read_parquet_metadata(other.tail(name))["cpmi"] == footer
        assert other.tail(name).stat().st_size == size or size is None
        assert not (other.folder / name).exists()


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
    other.remove([f"{model}/config.json"])
    with pytest.raises(LakeError, match="are missing; run `cpmi run --force`"):
        other.path(model)


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
    assert not one._objects.sizes("")


def test_rows_and_their_record_are_committed_with_one_put_and_then_named(s3_home, monkeypatch):
    lake, puts = Lake(s3_home, "miniature"), []
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *args, **options: (puts.append(args[1]), put(*args, **options))[1])
    lake.write(ROWS, FileRecord(KEY, "000", "r", "m", "1"))
    (name,) = [f"lake/{KEY}/000/{file}" for file in lake.entry(KEY, "000")]
    assert puts == [name, "lake/.current/miniature.json"]
    assert lake.read(KEY, "000").equals(ROWS)
    assert lake.partitions(KEY) == ["000"]
    assert local_folder(s3_home) == lake.folder


def test_credentials_are_in_no_error(s3_variables, s3_home, monkeypatch):
    store = ObjectStore(s3_home.replace("cpmi-tests", "no-such-bucket"))
    with pytest.raises(StorageError, match="there is no bucket at s3://no-such-bucket/"):
        store.write("a", b"")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("cpmi_dagster.resources.lake.object_store.RETRIES", {"max_retries": 0})
    with pytest.raises(StorageError) as found:
        ObjectStore(s3_home).read("a")
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
    assert list(one._objects.sizes(name)) == [f"{name}/checkpoint-80.tar"]


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
    assert list(third._objects.sizes(name)) == [f"{name}/checkpoint-40.tar"]


def test_a_damaged_copy_of_an_intact_object_is_fetched_again(stores, monkeypatch):
    lakes = [lake_of(files, monkeypatch) for files in stores]
    record = FileRecord(KEY, "000", "r", "m", "1")
    lakes[0].write(ROWS, record)
    copy = lakes[1].paths(KEY, "000")[0]
    before = copy.stat()
    copy.write_bytes(copy.read_bytes()[:-9] + b"x" * 9)
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert lakes[1].found(KEY, "000", {"all": ""}, check=True)
    assert lakes[1].read(KEY, "000").equals(ROWS)


@pytest.mark.parametrize("stores", ["memory"], indirect=True)
def test_weights_that_were_kept_are_whole_on_every_machine(stores, monkeypatch):
    lakes = [lake_of(files, monkeypatch) for files in stores]
    weights = stores[0].folder / "models" / "m" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"weights")
    record = lakes[0].write(ROWS, FileRecord(KEY, "000", "r", "m", "1", files=["models/m"]))
    assert (lakes[1].file("models/m", KEY, "000") / "model.safetensors").read_bytes() == b"weights"
    assert [lake.tables.has_files(record) for lake in lakes] == [True, True]
    stores[0].remove([f"{record.files[0].removesuffix('models/m')}MANIFEST.json"])
    assert not lakes[0].tables.has_files(record)


def lake_of(files: StoreFiles, monkeypatch) -> Lake:
    """The lake of one machine."""
    monkeypatch.setattr("cpmi_dagster.resources.lake.lake.open_home", lambda _: files)
    return Lake(files.folder, "miniature")


def _files(files: StoreFiles, folder: str) -> list[str]:
    place = files.folder / folder
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
