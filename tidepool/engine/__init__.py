"""An embedded Pulumi engine: runs Pulumi's Python programs without the ``pulumi`` command.

- :func:`main` carries out a command line in this process, ``python -m tidepool.engine`` does for a person;
- :class:`EmbeddedPulumiCommand` serves the Automation API;
- :func:`choose_command` takes the Pulumi CLI where there is one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidepool.engine.automation import EmbeddedPulumiCommand, choose_command
    from tidepool.engine.command import main

__all__ = ["EmbeddedPulumiCommand", "choose_command", "main"]


def __getattr__(name: str) -> Any:
    # Nothing is imported before it is needed: the SDK alone costs half a second.
    if name in __all__:
        module = "command" if name == "main" else "automation"
        return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
