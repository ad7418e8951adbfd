"""What a config field defaults to is a value that its own annotation allows: else who leaves it out is refused."""

import dataclasses
import importlib
import re
from pathlib import Path

from marin_exec.coercion import coerce
from marin_exec.fields import field_annotations

ROOT = Path(__file__).parents[2]


def config_classes():
    for path in sorted(ROOT.glob("steps/**/*.py")):
        # Only modules that define one are imported: those that plans import too, without jax and the like.
        if names := re.findall(r"^class (\w+Config)\b", path.read_text(), re.MULTILINE):
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            yield from (getattr(module, name) for name in names)


def test_every_default_of_every_config_is_allowed():
    checked = 0
    for cls in config_classes():
        annotations = field_annotations(cls)
        for field in dataclasses.fields(cls):
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            elif field.default is not dataclasses.MISSING:
                default = field.default
            else:
                continue
            coerce(default, annotations[field.name], f"{cls.__name__}.{field.name}")
            checked += 1
    assert checked > 100
