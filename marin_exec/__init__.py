"""A declarative, content-hashed execution engine for experiments, on Ray.

An experiment is a Python file that declares steps; a step runs once, is kept under its identity, and its record says
what it was made from. See docs/concepts.md.
"""

from marin_exec.adopted import adopt
from marin_exec.errors import ConfigError, IdentityMismatch, InternalError, MarinExecError, StepFailed, StoreError
from marin_exec.experiment import main
from marin_exec.fields import InputPath, added_default, measured, renamed_from, runtime
from marin_exec.files import open_file
from marin_exec.kinds import Kind, kind
from marin_exec.out import Milestone, Out, ShardOut
from marin_exec.resources import Resources, Retry
from marin_exec.step import Step, StepPath, pin

__all__ = [
    "ConfigError",
    "IdentityMismatch",
    "InputPath",
    "InternalError",
    "Kind",
    "MarinExecError",
    "Milestone",
    "Out",
    "Resources",
    "Retry",
    "ShardOut",
    "Step",
    "StepFailed",
    "StepPath",
    "StoreError",
    "added_default",
    "adopt",
    "kind",
    "main",
    "measured",
    "open_file",
    "pin",
    "renamed_from",
    "runtime",
]
