"""A config as plain values for what a step writes about itself: equal runs write equal bytes, old and new ones alike."""

import dataclasses
from typing import Any

from marin_exec import added_default
from marin_exec.fields import field_annotations, marker


def plain_config(config: Any) -> dict[str, Any]:
    """Returns a config dataclass as a dict, without the fields that count for nothing: those at their `added_default`.

    A field that is added to a config later so does not change what runs without it have written, as it does not change
    their identity. Fields that are dataclasses themselves are made plain likewise.
    """
    plain = {}
    for name, annotation in field_annotations(type(config)).items():
        value = getattr(config, name)
        added = marker(annotation, added_default)
        if added is None or value != added.value:
            plain[name] = plain_config(value) if dataclasses.is_dataclass(value) else value
    return plain
