"""How one manifest differs from another, for people."""

from collections.abc import Sequence

from marin_exec.records import FileEntry
from marin_exec.wording import some_of


def changed_files(before: Sequence[FileEntry], now: Sequence[FileEntry], most: int = 3) -> str:
    """Returns the first files that were added, removed or changed, and how many more there are; "" if none was."""
    old, new = {each.path: each for each in before}, {each.path: each for each in now}
    changes = [
        f"{path} {_change(old.get(path), new.get(path))}"
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]
    return some_of(changes, most)


def _change(before: FileEntry | None, now: FileEntry | None) -> str:
    if now is None:
        return "removed"
    if before is None:
        return "added"
    if before.size_bytes == now.size_bytes:
        return "changed (same size)"
    return f"changed ({before.size_bytes} -> {now.size_bytes} bytes)"
