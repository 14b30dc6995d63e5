"""One profile at a time works on a home, in any number of processes."""

import fcntl

import pytest
from filelock import FileLock

from cpmi_dagster.errors import LakeError
from cpmi_dagster.profiles.settings import load_settings
from cpmi_dagster.resources.dag.profile_at_work import profile_at_work


@pytest.fixture
def settings(tmp_path):
    return load_settings("miniature", home=tmp_path)


def test_runs_of_one_profile_work_side_by_side_and_leave_nothing(settings, tmp_path):
    orchestration = settings.orchestration.model_copy(update={"shards_per_tick": 9})
    with profile_at_work(settings), profile_at_work(settings.model_copy(update={"orchestration": orchestration})):
        pass
    assert not list(tmp_path.rglob("*.lock"))


@pytest.mark.parametrize(
    ("change", "who"), [({"profile": "other"}, "profile `miniature` is"), ({"seed": 7}, "`miniature` with other set")]
)
def test_another_profile_is_refused_while_one_is_at_work(settings, change, who):
    other = settings.model_copy(update=change)
    with (
        profile_at_work(settings),
        pytest.raises(LakeError, match=rf"a run of .*{who}.*CPMI_HOME"),
        profile_at_work(other),
    ):
        pass
    with profile_at_work(other):
        pass


@pytest.mark.parametrize("profile", ["other", "miniature"])
def test_a_run_that_was_killed_keeps_nobody_out(settings, tmp_path, profile):
    left = tmp_path / "lake" / ".locks" / "profiles" / f"{profile}-12345678-abc.lock"
    left.parent.mkdir(parents=True)
    with FileLock(left):
        pass
    with profile_at_work(settings):
        assert not left.exists()
        (mine,) = left.parent.iterdir()
    mine.touch()  # as a kill leaves it
    with profile_at_work(settings):
        assert not mine.exists()


def test_a_run_shows_its_lock_once_it_holds_it_so_that_none_who_looks_in_removes_it(settings, tmp_path, monkeypatch):
    other, flock, shown = settings.model_copy(update={"profile": "other"}), fcntl.flock, []

    def look_in_first(descriptor: int, operation: int) -> None:
        if not shown:
            shown.append(list(tmp_path.rglob("*.lock")))
            with profile_at_work(other):
                pass
        flock(descriptor, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", look_in_first)
        at_work = profile_at_work(settings)
        at_work.__enter__()
    assert shown == [[]]
    with pytest.raises(LakeError, match="is at work"), profile_at_work(other):
        pass
    at_work.__exit__(None, None, None)
