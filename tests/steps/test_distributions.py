import importlib.metadata

import pytest

from marin_exec import IdentityMismatch
from steps.distributions import installed_distribution


def test_installed_distribution_of_the_stated_version_is_returned():
    version = importlib.metadata.version("numpy")
    assert installed_distribution(f"numpy=={version}", "test", "Do.").version == version


@pytest.mark.parametrize(
    ("requirement", "found"),
    [("numpy==0.0.1", r"numpy [\d.]+ is installed"), ("no-such==1", "no-such is not installed")],
)
def test_installed_distribution_other_or_none_says_what_is_wanted_and_what_to_do(requirement, found):
    with pytest.raises(IdentityMismatch, match=rf"^step x: {found}; {requirement} is wanted\. Do that\.$"):
        installed_distribution(requirement, "step x", "Do that.")
