"""What all tests share."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_functions() -> Iterator[None]:
    """Free what a file's tests compiled: a process may only map so much memory, and XLA crashes beyond."""
    yield
    jax.clear_caches()
