"""Errors between us and a host."""

from __future__ import annotations


class HostError(Exception):
    """A host was not reached, or did not do what it was told. The text says what, where, and the remedy."""
