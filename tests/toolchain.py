"""Programs that are built from Go modules, for tests that need the real ones: they are left out where those are not built.

@needs_kubernetes
def test_...: ...

def test_...(): tools = built_tools(KUBERNETES)
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from tidepool.toolchain import KUBERNETES, NOMAD, OBJECTSTORE, Module, Toolchain, ToolchainError, find


def left_out(module: Module) -> str:
    """The reason of each test that is left out; why it is so is said once, at the end of the run."""
    return f"needs {module.title}, which is not built here: make {module.name}"


def why_missing(module: Module) -> str | None:
    """What is wrong; None where its tools are there."""
    try:
        find(os.environ, module)
    except ToolchainError as error:
        return str(error)
    return None


def _needs(module: Module) -> pytest.MarkDecorator:
    return pytest.mark.skipif(why_missing(module) is not None, reason=left_out(module))


needs_kubernetes: Final = _needs(KUBERNETES)
needs_nomad: Final = _needs(NOMAD)
needs_objectstore: Final = _needs(OBJECTSTORE)


def built_tools(module: Module) -> Toolchain:
    """The tools. Skips where they are not built."""
    if why_missing(module) is not None:
        pytest.skip(left_out(module))
    return find(os.environ, module)


def kubernetes_tools() -> Toolchain:
    """Those of Kubernetes."""
    return built_tools(KUBERNETES)
