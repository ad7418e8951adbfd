"""A directory that holds one documents data set a group, as mix/cells and heldout/select write them."""

from marin_exec import StepFailed
from steps.files import names_in


def group_names(path: str, expected: tuple[str, ...] | None = None) -> list[str]:
    """Returns the names of the subdirectories of `path`, sorted.

    Args:
        path: local path or fsspec URL.
        expected: exactly the groups that must be there; None takes those found.

    Raises:
        StepFailed: there is none, or the groups are not those expected. One that is missing is never skipped: a part of
            the data that silently goes missing shows only in the trained model, if at all.
    """
    names = names_in(path, only_directories=True)
    if not names:
        raise StepFailed(f"{path}: no subdirectory there; one documents data set a group is needed")
    if expected is not None and set(names) != set(expected):
        missing, unknown = sorted(set(expected) - set(names)), sorted(set(names) - set(expected))
        raise StepFailed(f"{path}: groups {missing} are missing and {unknown} are not expected; it holds {names}")
    return names
