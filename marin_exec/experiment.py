"""Loading an experiment: a Python file that exports `pipeline(params) -> steps` (or `pipeline() -> steps`)."""

import dataclasses
import importlib.machinery
import importlib.util
import inspect
import json
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, get_type_hints

from marin_exec.errors import ConfigError, MarinExecError
from marin_exec.step import Step

_OWN_FOLDERS = tuple(os.path.join(os.path.dirname(os.path.dirname(__file__)), each) for each in ("marin_exec", "steps"))


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A loaded experiment."""

    path: Path
    name: str
    """The file's stem; names the experiment's root in the store."""
    steps: tuple[Step, ...]
    travelling_modules: tuple[str, ...]
    """Modules from the experiment's own folder: workers may lack them, so their code travels with each task."""


def load_experiment(path: str | Path, arguments: Sequence[str] = ()) -> Experiment:
    """Imports an experiment file and calls its `pipeline`.

    Args:
        path: of the Python file; modules beside it can be imported by it.
        arguments: command-line arguments for its parameters, as draccus takes them ("--hero.width", "112").

    Raises:
        ConfigError: no such file, no `pipeline`, parameters that do not parse, or the file raised (with file and line).
    """
    file = Path(path).resolve()  # before the experiment's own code can change the working directory
    if not file.is_file() or file.suffix != ".py":
        raise ConfigError(
            f"experiment {str(path)!r}: no such Python file; give the path of an experiment, e.g. experiments/hello.py"
        )
    module = _import_file(file)
    pipeline = getattr(module, "pipeline", None)
    if not callable(pipeline):
        raise ConfigError(f"experiment {path}: has no function `pipeline`; define `def pipeline() -> list[Step]`")
    try:
        steps = pipeline(*_parameters(file, pipeline, arguments))
    except MarinExecError:
        raise
    except Exception as error:
        raise ConfigError(f"experiment {path}: pipeline() raised {_where(error, file)}") from error
    steps = (steps,) if isinstance(steps, Step) else tuple(steps or ())
    if not steps:
        raise ConfigError(
            f"experiment {path}: pipeline() returned no steps; return the steps that the experiment is for"
        )
    return Experiment(path=file, name=file.stem, steps=steps, travelling_modules=_modules_beside(file, module.__name__))


def _import_file(file: Path) -> ModuleType:
    _make_importable(str(file.parent))
    name = "experiment_" + re.sub(r"\W", "_", file.stem)
    spec = importlib.util.spec_from_file_location(name, file, loader=_AsItIsNow(name, str(file)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up there
    try:
        spec.loader.exec_module(module)
    except MarinExecError:
        raise
    except Exception as error:
        raise ConfigError(f"experiment {file}: cannot be imported: {_where(error, file)}") from error
    return module


class _AsItIsNow(importlib.machinery.SourceFileLoader):
    """Compiles the file at every import. Cached bytecode goes by size and whole seconds, so a quick edit could be missed."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _make_importable(folder: str) -> None:
    """Puts an experiment's folder before installed packages, but after the standard library.

    `python file.py` puts it first, where a random.py beside the experiment breaks whatever imports the real one later.
    """
    if sys.path and sys.path[0] == folder:
        del sys.path[0]
    if folder not in sys.path:
        library = sysconfig.get_path("stdlib")
        builtin = [n for n, each in enumerate(sys.path) if each == library or each.startswith(f"{library}/lib-")]
        sys.path.insert(max(builtin, default=-1) + 1, folder)


def _parameters(file: Path, pipeline: Callable[..., Any], arguments: Sequence[str]) -> list[Any]:
    """Parses the parameters that `pipeline` asks for; none, or one dataclass."""
    parameters = list(inspect.signature(pipeline, eval_str=True).parameters.values())
    if not parameters:
        if arguments:
            raise ConfigError(f"experiment {file.name}: takes no parameters, but {' '.join(arguments)!r} was given")
        return []
    kind = parameters[0].annotation
    if len(parameters) > 1 or not dataclasses.is_dataclass(kind):
        raise ConfigError(
            f"experiment {file.name}: pipeline{inspect.signature(pipeline)} must take no argument, or one that is a dataclass"
        )
    import draccus

    try:
        return [draccus.parse(config_class=kind, args=_text_as_it_is(kind, arguments))]
    except SystemExit as stop:  # argparse's way of refusing; it has printed why
        raise ConfigError(
            f"experiment {file.name}: parameters {' '.join(arguments)!r} do not parse as {kind.__name__}"
        ) from stop
    except Exception as error:
        raise ConfigError(f"experiment {file.name}: parameters do not parse: {error}") from error


def _text_as_it_is(kind: type, arguments: Sequence[str]) -> list[str]:
    """Quotes the values of text fields, because draccus reads values as YAML: 0010 would be '8', and yes 'True'."""
    options, quoted, before = {f"--{name}" for name in _text_fields(kind)}, [], ""
    for argument in arguments:
        option, sign, value = argument.partition("=")
        if before in options:
            quoted.append(json.dumps(argument, ensure_ascii=False))
            before = ""
            continue
        text = sign and option in options
        quoted.append(f"{option}={json.dumps(value, ensure_ascii=False)}" if text else argument)
        before = argument
    return quoted


def _text_fields(kind: type) -> Iterator[str]:
    """Yields the names of fields of type str, as the command line has them: "data.path" in a nested dataclass."""
    hints = get_type_hints(kind)
    for each in dataclasses.fields(kind):
        if hints[each.name] is str:
            yield each.name
        elif dataclasses.is_dataclass(hints[each.name]):
            yield from (f"{each.name}.{inner}" for inner in _text_fields(hints[each.name]))


def _modules_beside(file: Path, own_name: str) -> tuple[str, ...]:
    names = [own_name]
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if not origin or name in ("__main__", own_name) or "site-packages" in origin:
            continue
        found = Path(origin).resolve()
        if found.is_relative_to(file.parent) and not any(found.is_relative_to(each) for each in _OWN_FOLDERS):
            names.append(name)
    return tuple(names)


def _where(error: Exception, file: Path) -> str:
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).resolve() == file]
    place = f" ({file.name}:{lines[-1].lineno}: {lines[-1].line})" if lines else ""
    return f"{type(error).__name__}: {error}{place}"


def main(pipeline: Callable[..., Any]) -> None:
    """Runs the command line for the experiment that calls this: `python experiment.py [VERB] [OPTIONS]`, `run` by default.

    Stands at the end of an experiment file, under `if __name__ == "__main__":`.
    """
    file = inspect.getsourcefile(pipeline)
    if file is None:
        raise ConfigError("main(pipeline): the pipeline's source file cannot be found; put it in a file")
    _make_importable(str(Path(file).resolve().parent))
    from marin_exec import cli  # only now does the standard library come before what lies beside the experiment

    arguments = sys.argv[1:]
    verb = arguments.pop(0) if arguments and arguments[0] in cli.EXPERIMENT_VERBS else "run"
    cli.main([verb, file, *arguments])
