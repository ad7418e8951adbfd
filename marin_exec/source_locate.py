"""Where a module's file is, found without importing anything, and whether it belongs to the project."""

import functools
import os
import sys
import sysconfig
from collections.abc import Iterator

ENGINE = os.path.dirname(os.path.realpath(__file__))
_INSTALLED = tuple(
    os.path.realpath(each) + os.sep
    for each in {*(sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")), ENGINE}
)


@functools.cache
def is_installed(path: str) -> bool:
    """Says whether a file is of the standard library, an installed distribution, or this engine."""
    real = os.path.realpath(path)
    return real.startswith(_INSTALLED) or "site-packages" in real.split(os.sep) or "dist-packages" in real.split(os.sep)


def locate(module: str, root: str) -> str | None:
    """Returns the file of a module, or the folder of a package without `__init__.py`; None if it is not to be found.

    Looks beside the importing module's own root first, as Python does for a script, then where Python would. Parents
    are not imported, unlike with `importlib.util.find_spec`.
    """
    if not module or module.partition(".")[0] in sys.stdlib_module_names:
        return None
    return _locate(module, root, tuple(sys.path))


@functools.lru_cache(maxsize=65536)
def _locate(module: str, root: str, search_path: tuple[str, ...]) -> str | None:
    base = os.path.join(root, *module.split("."))
    for candidate in (os.path.join(base, "__init__.py"), base + ".py"):
        if os.path.isfile(candidate):
            return os.path.realpath(candidate)
    loaded = getattr(sys.modules.get(module), "__file__", None)
    if loaded is not None:
        return os.path.realpath(loaded)
    parent, _, _ = module.rpartition(".")
    folders = None
    if parent:
        above = _locate(parent, root, search_path)
        if above is None or is_installed(above):
            return None
        folders = list(_folders(above))
    return next(_found(module, folders), base if os.path.isdir(base) else None)


def _folders(path: str) -> Iterator[str]:
    yield path if os.path.isdir(path) else os.path.dirname(path)


def _found(module: str, folders: list[str] | None) -> Iterator[str]:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(module, folders) if find is not None else None
        if spec is not None and spec.origin not in (None, "built-in", "frozen"):
            yield os.path.realpath(spec.origin)
        elif spec is not None and spec.submodule_search_locations:
            yield os.path.realpath(next(iter(spec.submodule_search_locations)))
