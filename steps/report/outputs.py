"""Reads the JSON that other steps wrote, and the typed results that the engine kept of them."""

import json
from typing import Any

from marin_exec import StepFailed
from marin_exec.errors import StoreError
from steps.files import read_bytes


def read_json(path: str) -> Any:
    """Returns the value in a JSON file.

    Raises:
        StepFailed: the file is not there, or not JSON.
    """
    return _parsed(path, _bytes(path))


def read_json_lines(path: str) -> list[Any]:
    """Returns the value of each line of a JSON lines file, blank lines left out.

    Raises:
        StepFailed: the file is not there, or a line is not JSON.
    """
    return [_parsed(path, line) for line in _bytes(path).splitlines() if line.strip()]


def recorded_result(path: str) -> dict[str, Any] | None:
    """Returns the typed result in the record of the step that wrote `path`, or None where no store keeps one."""
    from marin_exec.lineage import record_at

    try:
        return record_at(path).result
    except StoreError:  # outside a store there are files but no records; the page says which figures that leaves out
        return None


def recorded_config(path: str) -> dict[str, str]:
    """Returns the config of the step that wrote `path`: readable values by dotted path, e.g. {"encoder.max_tokens": "512"}.

    Texts are quoted, runtime fields left out, and it is empty where no store keeps a record.
    """
    from marin_exec.lineage import record_at
    from marin_exec.trees import flatten

    try:
        fields = flatten(record_at(path).identity)
    except StoreError:  # as for results
        return {}
    return {name.removeprefix("config."): value for name, value in fields.items() if name.startswith("config.")}


def was_made_from(path: str, other: str) -> bool | None:
    """Returns whether the step that wrote `path` was given an output like the one at `other`; None where no store says."""
    from marin_exec.lineage import record_at

    try:
        wanted, dependencies = record_at(other), record_at(path).dependencies
    except StoreError:  # as for results
        return None
    return any(each.output_digest == wanted.output_digest for each in dependencies)


def _bytes(path: str) -> bytes:
    try:
        return read_bytes(path)
    except FileNotFoundError as error:
        raise StepFailed(
            f"report: {path} is not there; give the output of the step that writes it, or run that step again"
        ) from error


def _parsed(path: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise StepFailed(f"report: {path} is not JSON ({error}); run the step that wrote it again") from error
