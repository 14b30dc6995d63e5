"""Write a folder that appears under its name when it is complete, or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_at_once(folder: Path) -> Iterator[Path]:
    """A hidden sibling to write into, renamed to `folder` when the block succeeds and removed when it fails.

    Files of an earlier, killed attempt are removed first. An existing folder stays until the new one is complete.
    """
    partial = folder.parent / f".{folder.name}.partial"
    replaced = folder.parent / f".{folder.name}.replaced"
    for leftover in (partial, replaced):
        shutil.rmtree(leftover, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        if folder.exists():
            folder.rename(replaced)
        partial.rename(folder)
    finally:
        for leftover in (partial, replaced):
            shutil.rmtree(leftover, ignore_errors=True)
