"""Task files of lm-eval-harness as data: YAML with `!function` tags and `include`s. The harness itself is never imported."""

import posixpath
from typing import Any

from marin_exec import ConfigError, StepFailed
from steps.files import read_bytes


class Tagged(str):
    """What stands after a tag such as `!function`: a name in Python code, which is not run."""


def read_task(path: str) -> dict[str, Any]:
    """Returns a task file's values, those of the files that it includes below its own.

    Args:
        path: local path or URL.

    Raises:
        ConfigError: there is no such file.
        StepFailed: it is not YAML, not a mapping, or includes itself.
    """
    return _read(path, ())


def parse_yaml(data: bytes, where: str) -> Any:
    """Returns the values of a YAML file; a tagged scalar becomes `Tagged`.

    Raises:
        StepFailed: it is not YAML.
    """
    import yaml  # comes with ray

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        """Of its own, so that no other user of yaml sees the constructor."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: Tagged(loader.construct_scalar(node)))
    try:
        return yaml.load(data, Loader=Loader)
    except yaml.YAMLError as error:
        raise StepFailed(f"{where}: not YAML ({error}); give a task file of lm-eval-harness") from error


def _read(path: str, above: tuple[str, ...]) -> dict[str, Any]:
    if path in above:
        raise StepFailed(f"{path}: includes itself, by way of {' -> '.join(above)}")
    try:
        data = read_bytes(path)
    except FileNotFoundError as error:
        advice = "correct the include" if above else "give the path of a task file of lm-eval-harness"
        raise ConfigError(
            f"{path}: no such file{f', which {above[-1]} includes' if above else ''}; {advice}"
        ) from error
    values = parse_yaml(data, path)
    if not isinstance(values, dict):
        raise StepFailed(f"{path}: holds a {type(values).__name__}, not keys and values; give a task file")
    included: dict[str, Any] = {}
    names = values.pop("include", [])
    for name in [names] if isinstance(names, str) else names:
        included |= _read(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)), (*above, path))
    return included | values
