"""Plugins of the tests: a few types of another's package, served by the real API behind it.

They stand in for plugins that no package registry has. A module of this folder, `nomad` say, has ``KINDS``: by its token,
each type that the graph uses, made from the provider's configuration. Properties that a type does not declare are refused.

    python -m tests.plugins.serving nomad ADDRESS

is what the program ``pulumi-resource-nomad`` runs, which `search_path` makes; with the real plugin on PATH that is used.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pulumi.runtime.proto.provider_pb2 import CheckRequest, CheckResponse

from tidepool.provider.provider import EngineLog, TidepoolProvider
from tidepool.provider.serving import serve
from tidepool.resources.kind import AnyKind
from tidepool.resources.values import SIGNATURE, Plain, Properties, plain, property_value

#: What the program gives its provider, by the names that the package has: strings, and JSON of what is more.
Configuration = Mapping[str, Plain]
Kinds = Mapping[str, Callable[[Configuration], AnyKind]]

_ASSET: Final = property_value("c44067f5952c0a294b673a41bacd8c17")
_CHECKOUT: Final = Path(__file__).parents[2]


def is_real(package: str) -> bool:
    """Return whether the package's own plugin is on PATH, which these tests then use."""
    return shutil.which(f"pulumi-resource-{package}") is not None


def search_path(folder: Path, *packages: str) -> str:
    """Return a PATH on which the plugins of ``packages`` are; programs for those that are not yet are made in ``folder``."""
    folder.mkdir(exist_ok=True)
    for package in packages:
        if not is_real(package):
            program = folder / f"pulumi-resource-{package}"
            served = shlex.join([sys.executable, "-P", "-m", __name__, package])
            program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(_CHECKOUT))} exec {served} "$@"\n')
            program.chmod(0o755)
    return os.pathsep.join([str(folder), os.environ["PATH"]])


class PluginProvider(TidepoolProvider):
    """A provider of ``kinds``, which are made when it was configured."""

    def __init__(self, kinds: Kinds, log: EngineLog, end: Callable[[], None]) -> None:
        self._kinds = kinds
        self._made: dict[str, AnyKind] = {}
        super().__init__(self._made.__getitem__, log, end)

    async def configure(self, configuration: Properties) -> None:
        given = {key: plain(value) for key, value in configuration.items()}
        self._made.update({token: make(given) for token, make in self._kinds.items()})

    async def check(self, request: CheckRequest) -> CheckResponse:
        for value in request.news.fields.values():
            if value.struct_value.fields.get(SIGNATURE) == _ASSET and "path" in value.struct_value.fields:
                # A file, as its path, which kinds take.
                value.string_value = value.struct_value.fields["path"].string_value
        return await super().check(request)


def main(package: str, arguments: list[str]) -> None:
    """Serve the plugin until a signal comes."""
    kinds: Any = import_module(f"tests.plugins.{package}").KINDS
    address = next((each for each in arguments if not each.startswith("-")), "")
    faults = Path(tempfile.gettempdir()) / f"plugin-{package}-faults-{os.getpid()}.log"
    asyncio.run(
        serve(
            address,
            faults,
            partial(PluginProvider, kinds),
            version=importlib.metadata.version(f"pulumi-{package}"),
        )
    )
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
