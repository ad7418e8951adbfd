"""The browser that the tests of this folder look at pages with."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def chromium() -> str:
    """Returns the path of the program."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        message = "no chromium on this machine (apt-get install chromium): the pages are not looked at"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found
