"""Definitions of kinds of objects, as a toolchain has them in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tidepool.toolchain import Toolchain


def definitions(tools: Toolchain) -> Iterator[Mapping[str, Any]]:
    """Yield the CustomResourceDefinitions of a toolchain."""
    for name in tools.module.tools:
        if name.endswith(".yaml"):
            for thing in documents(tools, name):
                if thing["kind"] == "CustomResourceDefinition":
                    yield thing


def documents(tools: Toolchain, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a file of a toolchain."""
    # The library's reader in C: in Python it takes seconds for these.
    for thing in yaml.load_all(tools.path(name).read_text(), yaml.CSafeLoader):
        if thing:
            # What the generator of some leaves there, which the API server does not take.
            yield {key: value for key, value in thing.items() if key != "status"}
