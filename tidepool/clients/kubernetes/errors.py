"""Errors of asking Kubernetes. Nothing fails open: an answer that is not whole is an error."""

from __future__ import annotations


class KubernetesError(Exception):
    """Kubernetes could not do what was asked. The text is for a person: what, where, and the remedy."""


class Unreachable(KubernetesError):
    """The API server does not answer: not there, hanging, or not with its own certificate. Nothing is known."""


class TimedOut(Unreachable):
    """No answer in time. After a change: it may have been made, look again."""


class Unauthorized(KubernetesError):
    """It does not know who asks: a credential that is wrong, or has ended."""


class Forbidden(KubernetesError):
    """The asker lacks a right. ``right`` says which: ``create pods/eviction``."""

    def __init__(self, message: str, right: str = "") -> None:
        super().__init__(message)
        self.right = right


class NotFound(KubernetesError):
    """There is no such object."""


class Conflict(KubernetesError):
    """It is there already, or somebody changed it meanwhile."""


class Invalid(KubernetesError):
    """The API server refuses what was asked, as it is not what it should be."""


class EvictionRefused(KubernetesError):
    """A pod disruption budget does not allow the eviction now. ``budget`` is its name, where the API told it."""

    def __init__(self, message: str, budget: str = "") -> None:
        super().__init__(message)
        self.budget = budget


class Malformed(KubernetesError):
    """An answer that cannot be understood."""
