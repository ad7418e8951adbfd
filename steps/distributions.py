"""Installed distributions that a config states by name and version."""

import importlib.metadata

from marin_exec import IdentityMismatch


def installed_distribution(requirement: str, what: str, advice: str) -> importlib.metadata.Distribution:
    """Returns the installed distribution that a literal such as "numpy==2.5.5" states.

    Args:
        requirement: name and version.
        what: what it is wanted for, named first in errors, e.g. "source numpy==2.5.5".
        advice: what to do if it is not there, the end of an error's message.

    Raises:
        IdentityMismatch: it is not installed, or in another version.
    """
    name, _, version = requirement.partition("==")
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise IdentityMismatch(f"{what}: {name} is not installed; {requirement} is wanted. {advice}") from error
    if found.version != version:
        raise IdentityMismatch(f"{what}: {name} {found.version} is installed; {requirement} is wanted. {advice}")
    return found
