"""A fixture for tests that compare numbers within a tolerance: most of their time would go into optimising what runs once.

Tests of bits (training, the chain) compile as real runs do.
"""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
