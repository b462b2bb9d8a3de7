"""Failures of verbs, with the exit codes and the texts that scripts and the Automation API know."""

from __future__ import annotations

from tidepool.engine.errors import EngineError

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
