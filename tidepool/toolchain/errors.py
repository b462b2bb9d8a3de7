"""What can go wrong with the toolchain, as types. Each text is for a person: what, where, the remedy."""

from __future__ import annotations


class ToolchainError(Exception):
    """Something about the toolchain is wrong. Its text is shown as it is, without a traceback."""


class ToolchainMissing(ToolchainError):
    """It is not built, or not whole."""


class CannotBuild(ToolchainError):
    """This machine lacks what it is built with: Go, or the modules."""


class BuildFailed(ToolchainError):
    """A build failed, or another one does not end."""
