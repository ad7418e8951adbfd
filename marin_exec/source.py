"""Which code a step function runs: a digest of it and of all project code that it reaches, function by function.

Reached is what is referred to by name, however far away: functions, classes and constants of project modules, by
`from x import y`, `import x; x.y`, and imports inside functions. A project module is a file that is not of the standard
library, an installed distribution or this engine. Not seen are names made at run time (`getattr` with a computed name,
a registry filled by a module that nobody names) and the versions of installed packages, which the record keeps apart.

Where it is not plain whether a name is local or the module's (comprehensions, `except ... as`), it counts as the
module's: the error is on the side of noticing.
"""

import hashlib
import inspect
import os
import sys
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marin_exec.encoding import digest_of_value
from marin_exec.errors import ConfigError
from marin_exec.source_definitions import Definition, Import, define
from marin_exec.source_locate import ENGINE, is_installed, locate
from marin_exec.source_modules import BODY, ModuleSource, function_nodes, module_source, parse_text


@dataclass(frozen=True)
class SourceInfo:
    """The code that a step function runs."""

    digest: str
    """SHA-256 over all parts, 64 hex digits."""
    functions: dict[str, str]
    """Each part, e.g. "steps.dedup.fuzzy.cluster", with the first 16 hex digits of its own digest; sorted by name."""


def source_of(fn: Callable[..., Any], project_roots: Sequence[str | Path] | None = None) -> SourceInfo:
    """Returns the digest of the function's source and of the project code it reaches. Nothing is imported.

    Args:
        fn: a function; what `functools.wraps` wraps is followed, values it captured count by their digest.
        project_roots: directories whose modules are project modules; by default all that is not installed.

    Raises:
        ConfigError: the source is not to be had, or the function captured a value that has no canonical encoding.
    """
    walk = _Walk(tuple(str(Path(root).resolve()) for root in project_roots) if project_roots is not None else None)
    walk.add_function(fn)
    walk.run()
    parts = walk.named_parts()
    lines = "\n".join(f"{name} {digest}" for name, digest in parts.items())
    digest = hashlib.sha256(b"marin-source/1\0" + lines.encode("utf-8")).hexdigest()
    return SourceInfo(digest, {name: part[:16] for name, part in parts.items()})


def changed_functions(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Returns the sorted names of parts that were changed, added or removed between two `SourceInfo.functions`."""
    return sorted(name for name in {**old, **new} if old.get(name) != new.get(name))


class _Walk:
    """One search over definitions, from a step function outwards."""

    def __init__(self, roots: tuple[str, ...] | None):
        self.roots = roots
        self.own_root = ""
        self.own_package = ""
        self.modules: dict[str, ModuleSource] = {}
        self.parts: dict[tuple[str, str], str] = {}
        self.queue: list[tuple[str, str]] = []

    def add_function(self, fn: Any) -> None:
        while fn is not None:
            if not isinstance(fn, types.FunctionType):
                raise ConfigError(f"{fn!r} ({type(fn).__name__}) has no source; a plain function in a file is needed")
            self._add_one(fn)
            fn = getattr(fn, "__wrapped__", None)

    def _add_one(self, fn: types.FunctionType) -> None:
        code = fn.__code__
        module, in_file = self._module_of(fn)
        self.own_root = self.own_root or module.root
        name = code.co_qualname.replace(".<locals>", "")
        nodes = function_nodes(module, code.co_name)
        node = nodes.get(code.co_firstlineno if in_file else 1)
        if node is None:  # the file was edited since it was loaded: lines moved, names did not
            if len(nodes) != 1:
                raise ConfigError(
                    f"function {fn.__module__}.{fn.__qualname__} is not in {module.path} any more, or is there "
                    "more than once; start Python again so that what runs is what is in the file"
                )
            (node,) = nodes.values()
        key = (module.path, name)
        definition = define(module.absolute, [node], without_decorators=True)
        if self.parts.get(key) is None:
            self.parts[key] = definition.digest
            self._follow(module, definition)
            self._add_captured(fn, key)
            if not in_file:
                self._add_globals(fn, definition, key)

    def _module_of(self, fn: types.FunctionType) -> tuple[ModuleSource, bool]:
        path = fn.__code__.co_filename
        if os.path.isfile(path):
            path = os.path.realpath(path)
            if is_installed(path):
                self.own_package = (
                    os.path.join(module_source(path).root, module_source(path).name.partition(".")[0]) + os.sep
                )
            return self._module(path), True
        try:
            text = textwrap.dedent(inspect.getsource(fn))
            module = parse_text(text, path, fn.__module__, os.getcwd())
        except (OSError, TypeError, SyntaxError) as error:
            raise ConfigError(
                f"the source of {fn.__module__}.{fn.__qualname__} is not to be had ({error}); "
                "put the step function in a Python file"
            ) from error
        self.modules.setdefault(path, module)
        return module, False

    def _add_captured(self, fn: types.FunctionType, key: tuple[str, str]) -> None:
        """A closure's captured functions are reached; captured values count by value, or are refused."""
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            self._add_value(cell.cell_contents, (key[0], f"{key[1]}.{name}"))

    def _add_globals(self, fn: types.FunctionType, definition: Definition, key: tuple[str, str]) -> None:
        for name in sorted({dotted[0] for dotted in definition.uses}):
            if name in fn.__globals__:
                self._add_value(fn.__globals__[name], (key[0], name))

    def _add_value(self, value: Any, key: tuple[str, str]) -> None:
        if isinstance(value, types.FunctionType):
            if os.path.isfile(value.__code__.co_filename) and not self._is_project(value.__code__.co_filename):
                return
            self.add_function(value)
        elif isinstance(value, types.ModuleType):
            self._reach_import(Import(value.__name__, None), (), self.own_root)
        elif isinstance(value, type) and value.__module__ in sys.modules and value.__module__ != "__main__":
            self._reach_import(Import(value.__module__, value.__qualname__.partition(".")[0]), (), self.own_root)
        elif not isinstance(value, types.BuiltinFunctionType):
            try:
                self.parts[key] = digest_of_value(value)
            except ConfigError as error:
                raise ConfigError(
                    f"the step function uses {key[1]!r} from around it, a value that cannot be part of its identity; "
                    f"give it in the config, or put both in a Python file ({error})"
                ) from error

    def run(self) -> None:
        while self.queue:
            path, name = self.queue.pop()
            if (path, name) in self.parts:
                continue
            module = self._module(path)
            definition = module.definition(name)
            self.parts[path, name] = definition.digest
            self._follow(module, definition)

    def _module(self, path: str) -> ModuleSource:
        if path not in self.modules:
            self.modules[path] = module_source(path)
            self._reach_name(self.modules[path], BODY)
        return self.modules[path]

    def _follow(self, module: ModuleSource, definition: Definition) -> None:
        for dotted in definition.uses:
            local = definition.imports.get(dotted[0])
            for each in local or ():
                self._reach_import(each, dotted[1:], module.root)
            if local is None:
                self._reach_name(module, dotted[0], dotted[1:])

    def _reach_name(self, module: ModuleSource, name: str, rest: tuple[str, ...] = ()) -> bool:
        """Queues what a top-level name of a module is made of; False where the module has no such name."""
        if name in module.nodes:
            self.queue.append((module.path, name))
        for each in module.imports.get(name, ()):
            self._reach_import(each, rest, module.root)
        if name in module.nodes or name in module.imports:
            return True
        stars = module.stars if name != BODY else ()
        found = [
            self._reach_import(Import(star, name), rest, module.root) for star in stars
        ]  # each of them is followed
        return any(found)

    def _reach_import(self, bound: Import, rest: tuple[str, ...], root: str) -> bool:
        if bound.attribute is not None:
            return self._reach_import(Import(bound.module, None), (bound.attribute, *rest), root)
        path = self._project_file(bound.module, root)
        if rest:
            if path is not None and self._reach_name(self._module(path), rest[0], rest[1:]):
                return True
            if self._is_project_package(bound.module, root):
                return self._reach_import(Import(f"{bound.module}.{rest[0]}", None), rest[1:], root)
            return False
        if path is not None:  # the module itself is handed on: anything in it may be used
            module = self._module(path)
            self.queue.extend((path, name) for name in module.nodes)
        return path is not None

    def _project_file(self, module: str, root: str) -> str | None:
        found = locate(module, root)
        return found if found is not None and found.endswith(".py") and self._is_project(found) else None

    def _is_project_package(self, module: str, root: str) -> bool:
        found = locate(module, root)
        if found is None:
            return False
        return (found.endswith("__init__.py") or not found.endswith(".py")) and self._is_project(found)

    def _is_project(self, path: str) -> bool:
        if self.roots is not None:
            return any(Path(path).is_relative_to(root) for root in self.roots)
        # A library of steps may itself be installed: the step function's own package counts as project code.
        own = self.own_package and path.startswith(self.own_package) and not path.startswith(ENGINE + os.sep)
        return bool(own) or not is_installed(path)

    def named_parts(self) -> dict[str, str]:
        """Parts by readable name, sorted; two files of one module name are told apart by their folders' names."""
        paths_of: dict[str, set[str]] = {}
        for path, _ in self.parts:
            paths_of.setdefault(self.modules[path].name, set()).add(path)
        named = {}
        for (path, name), digest in self.parts.items():
            module = self.modules[path].name
            if len(paths_of[module]) > 1:
                module = f"{Path(path).parent.name}.{module}"
            named[f"{module}.{name}"] = digest
        return dict(sorted(named.items()))
