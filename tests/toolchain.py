"""Whether the toolchain is there, for tests that need a real Kubernetes: they are left out where it is not, and that is said.

@needs_kubernetes
def test_...: ...

def test_...(): tools = kubernetes_tools()
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from tidepool.toolchain import Toolchain, ToolchainError, find


def _why_not() -> str | None:
    try:
        find(os.environ)
    except ToolchainError as error:
        return str(error)
    return None


#: None where it is there.
MISSING: Final = _why_not()

#: Of each that is left out; why it is so is said once, at the end of the run.
LEFT_OUT: Final = "needs Kubernetes, which is not built here: make kubernetes"

needs_kubernetes: Final = pytest.mark.skipif(MISSING is not None, reason=LEFT_OUT)


def kubernetes_tools() -> Toolchain:
    """The tools. Skips where they are not built."""
    if MISSING is not None:
        pytest.skip(LEFT_OUT)
    return find(os.environ)
