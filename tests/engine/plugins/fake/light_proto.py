"""Pulumi's protocol messages without the rest of Pulumi.

Importing `pulumi.runtime.proto` runs `pulumi/__init__.py`, which costs 0.2 s; the messages alone cost
0.02 s. They are relative imports of each other, so any package whose path is their folder will do.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType


def load(name: str) -> ModuleType:
    package = "pulumi_protocol"
    if package not in sys.modules:
        spec = importlib.util.find_spec("pulumi")  # of a top-level package: finds it, does not run it
        assert spec is not None, "the package pulumi is not installed for this interpreter"
        assert spec.submodule_search_locations, "pulumi is not a package"
        module = ModuleType(package)
        module.__path__ = [f"{p}/runtime/proto" for p in spec.submodule_search_locations]
        sys.modules[package] = module
    return importlib.import_module(f"{package}.{name}")
