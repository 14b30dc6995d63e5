import pytest


@pytest.fixture
def published_at_the_end(monkeypatch):
    """`cpmi.duckdb` is published when a run ends, and not after every stage: nobody reads it meanwhile."""
    monkeypatch.setattr("cpmi_dagster.resources.dag.making.publish", lambda *_: None)
