"""Errors between us and a host."""

from __future__ import annotations


class LibvirtError(Exception):
    """A host was not asked, or did not answer. The text says what, where, and the remedy."""
