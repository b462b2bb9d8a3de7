"""Errors for people: what is wrong and where, what is allowed, the remedy."""

from __future__ import annotations

from typing import Final

#: Of a command that a person interrupted before it began anything.
EXIT_INTERRUPTED: Final = 130


class EngineError(Exception):
    """A person's mistake or a fault of their world. Its text is shown as it is, without a traceback.

    ``exit_code`` follows the Pulumi CLI, whose codes the Automation API and scripts read.
    """

    exit_code = 1


class UsageError(EngineError):
    """The command line cannot be understood: an unknown verb, flag or value."""


class NotSupportedError(EngineError):
    """A feature that the Pulumi CLI has and this engine refuses, by name."""

    def __init__(self, feature: str) -> None:
        super().__init__(
            f"{feature} is not supported by the embedded engine; nothing was changed. "
            "The Pulumi CLI does it: install `pulumi`, put it on PATH and run the same command on the same stack."
        )


class AlreadyReported(EngineError):
    """The operation failed and its diagnostics were already shown; only the exit code is left to give."""
