"""The exceptions of this package, as a tree.

MarinExecError
├── ConfigError        an experiment, a config or a command is wrong; nothing was started (exit 2)
│   └── IdentityMismatch   a value given as a literal (a pin, a manifest digest) is not what was found (exit 4)
├── StepFailed         a step ran and did not end well (exit 1)
├── StoreError         the store refused, is missing something, or cannot do what is needed (exit 1)
└── InternalError      a bug of this package: please report it with the message

Every message names what was wrong, the value got, what is allowed, and what to do.
"""


class MarinExecError(Exception):
    """Base of every error that this package raises on purpose."""


class ConfigError(MarinExecError):
    """An experiment, a config value or a command line is wrong."""


class IdentityMismatch(ConfigError):
    """Found content differs from the digest or version that the experiment states."""


class StepFailed(MarinExecError):
    """A step function raised, was killed, or left an output that cannot be committed."""


class StoreError(MarinExecError):
    """The store is unreachable, not writable, damaged, or lacks conditional writes."""


class InternalError(MarinExecError):
    """An invariant of this package does not hold."""
