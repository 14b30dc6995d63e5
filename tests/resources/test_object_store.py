"""Requests to an object store."""

from obstore.store import MemoryStore

from cpmi_dagster.resources.lake import object_store
from cpmi_dagster.resources.lake.object_store import ObjectStore


def test_where_a_store_stops_at_a_missing_object_the_others_are_deleted_all_the_same(monkeypatch):
    store, delete = ObjectStore("s3://memory/home", MemoryStore()), object_store.obstore.delete

    def strict(objects, names):
        for name in names:
            if name not in store.sizes(""):
                raise FileNotFoundError(name)
            delete(objects, [name])

    monkeypatch.setattr(object_store.obstore, "delete", strict)
    for name in ("first", "third"):
        store.write(name, b"")
    store.delete(["first", "second", "third"])
    assert store.sizes("") == {}
