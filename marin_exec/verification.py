"""Checking outputs against their records: every file there, of its size and, on demand, of its checksum."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from marin_exec.errors import StoreError
from marin_exec.lineage import Located
from marin_exec.records import Record
from marin_exec.store import Store
from marin_exec.store.manifest import differing_files


@dataclass(frozen=True)
class Checked:
    """One output, or a part of it, after the check."""

    record: Record
    files: int
    bytes: int
    """Recorded sizes of what was checked."""
    damage: tuple[tuple[str, str], ...]
    """Path in the output and what is wrong, e.g. "missing"; ("", reason) if it cannot be checked at all."""


def check_outputs(
    store: Store, chosen: Iterable[Located], *, checksums: bool, done: Callable[[Checked], None]
) -> list[Checked]:
    """Checks outputs, several at a time, and returns what was found, in order.

    Args:
        checksums: read every file; else only presence and sizes are compared.
        done: called as each is checked, from any thread.
    """
    from concurrent.futures import ThreadPoolExecutor

    def check(located: Located) -> Checked:
        record, below = located.record, located.sub_path
        files = [each for each in record.files if not below or f"{each.path}/".startswith(f"{below}/")]
        try:
            damage = tuple(differing_files(store, record.output_path, files, checksums=checksums))
        except (OSError, StoreError) as error:
            damage = (("", f"cannot be read: {error}"),)
        if below and not files:
            damage = ((below, "not in the record"),)
        checked = Checked(record, len(files), sum(each.size_bytes for each in files), damage)
        done(checked)
        return checked

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(check, chosen))
