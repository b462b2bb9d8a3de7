"""Pulumi's protocol messages without the rest of Pulumi.

``import pulumi.runtime.proto`` runs ``pulumi/__init__.py``, which takes 0.2 s; the messages alone take
0.02 s. An operation that runs no program (destroy, refresh) needs nothing but the messages. They import
each other relatively, so they are loaded below a package of our own whose path is their folder, unless
Pulumi is loaded already. Message classes are the same objects either way: protobuf keeps one class for
each descriptor.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any, Final

from tidepool.engine.errors import EngineError

_PACKAGE: Final = "tidepool.engine.providers._pulumi_protocol"
_PULUMI: Final = "pulumi.runtime.proto"


def load(name: str) -> Any:
    """The module ``name`` of Pulumi's protocol, such as ``provider_pb2`` or ``provider_pb2_grpc``.

    Raises:
        EngineError: when the package pulumi is not installed.
    """
    if _PULUMI in sys.modules:
        return importlib.import_module(f"{_PULUMI}.{name}")
    if _PACKAGE not in sys.modules:
        # Of a top-level package this finds the files and runs nothing.
        spec = importlib.util.find_spec("pulumi")
        if spec is None or not spec.submodule_search_locations:
            raise EngineError(
                f"the Python package 'pulumi' is not installed for {sys.executable}; "
                "it carries the protocol that providers speak: `pip install pulumi`"
            )
        package = ModuleType(_PACKAGE)
        package.__path__ = [f"{folder}/runtime/proto" for folder in spec.submodule_search_locations]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")
