"""A directory that holds one documents data set a group, as mix/cells and heldout/select write them."""

from concurrent.futures import ThreadPoolExecutor

from marin_exec import StepFailed
from steps.files import names_in

_LISTED_AT_ONCE = 16  # requests to an object store wait for each other otherwise


def group_names(path: str, expected: tuple[str, ...] | None = None) -> list[str]:
    """Returns the names of the subdirectories of `path`, sorted.

    Args:
        path: local path or fsspec URL.
        expected: exactly the groups that must be there; None takes those found.

    Raises:
        StepFailed: there is none, one lies inside another, or the groups are not those expected. One that is missing is
            never skipped: a part of the data that silently goes missing shows only in the trained model, if at all.
    """
    names = names_in(path, only_directories=True)
    if not names:
        raise StepFailed(f"{path}: no subdirectory there; one documents data set a group is needed")
    with ThreadPoolExecutor(min(_LISTED_AT_ONCE, len(names))) as pool:
        inside = list(pool.map(lambda name: names_in(f"{path}/{name}", only_directories=True), names))
    for name, inner in zip(names, inside, strict=True):
        if inner:
            raise StepFailed(
                f"{path}: {name!r} has the directory {inner[0]!r} in it; groups lie side by side. Where they are sources, give "
                f'them names without "/", such as "{name}-{inner[0]}"'
            )
    if expected is not None and set(names) != set(expected):
        missing, unknown = sorted(set(expected) - set(names)), sorted(set(names) - set(expected))
        raise StepFailed(f"{path}: groups {missing} are missing and {unknown} are not expected; it holds {names}")
    return names
