"""Errors for people: what is wrong and where, what is allowed, the remedy."""

from __future__ import annotations

from typing import Final

#: Of a command that a person interrupted before it began anything.
EXIT_INTERRUPTED: Final = 130
#: What the embedded engine and the Pulumi CLI say where the passphrase is another one than a stack's. They are asked by
#: commands, so their words are all that there is.
INCORRECT_PASSPHRASE: Final = "incorrect passphrase"  # noqa: S105


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


EXIT_CONFIGURATION = 2
EXIT_STACK_NOT_FOUND = 6


class NoSuchStack(EngineError):
    """There is no stack of that name. The Automation API knows the text."""

    exit_code = EXIT_STACK_NOT_FOUND

    def __init__(self, name: str) -> None:
        super().__init__(f"no stack named '{name}' found")


class NoStackSelected(EngineError):
    """No stack was named, and none is selected."""


class NotConfirmed(EngineError):
    """A person must confirm, and nobody can be asked."""


class ConfirmationMissing(EngineError):
    """An operation that changes something was neither approved nor can be."""

    exit_code = EXIT_CONFIGURATION

    def __init__(self, kind: str) -> None:
        if kind == "refresh":
            # The CLI's refresh gives the same text with another code.
            self.exit_code = EngineError.exit_code
        super().__init__(
            "--yes or --skip-preview or --preview-only must be passed in to proceed when running in "
            "non-interactive mode"
        )
