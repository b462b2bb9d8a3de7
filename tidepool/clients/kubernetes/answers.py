"""Read the answer of an API server: an object, or a typed error. Nothing else passes for one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tidepool.clients.kubernetes.errors import (
    Conflict,
    EvictionRefused,
    Forbidden,
    Invalid,
    KubernetesError,
    Malformed,
    NotFound,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from tidepool.clients.kubernetes.objects import Right

_BUDGET: Final = re.compile(r"The disruption budget (\S+) ")
#: The API server says so with 500: it is for ever, and no fault of its own.
_TWO_BUDGETS: Final = "more than one PodDisruptionBudget"


class Expired(KubernetesError):
    """The page that was asked for is of a list that the API server no longer has."""


def answer_of(status: int, body: bytes, where: str, right: Right, *, changes: bool) -> Mapping[str, Any]:
    """The object that an answer holds.

    Args:
        status: of HTTP.
        body: all of it.
        where: who answered.
        right: what was asked for.
        changes: whether it may have changed something.

    Raises:
        KubernetesError: it holds none; of the class that says what happened.
    """
    try:
        read = json.loads(body)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise _no_object(status, body, where, right)
    is_failure = read.get("kind") == "Status" and read.get("status") != "Success"
    if 200 <= status < 300 and not is_failure:
        return read
    if not is_failure:
        raise _no_object(status, body, where, right)
    raise _error(status, read, where, right, changes=changes)


def _error(
    status: int, read: Mapping[str, Any], where: str, right: Right, *, changes: bool
) -> KubernetesError:
    code = read.get("code") if isinstance(read.get("code"), int) else status
    words = str(read.get("message") or read.get("reason") or f"status {code}")
    said = f"{where}: {words}"
    match code:
        case 401:
            return Unauthorized(f"{where} does not know who asks: see the kubeconfig's credential")
        case 403 if "NamespaceTerminating" in _causes(read):
            return NotFound(f"{said}: its namespace goes, with all that is in it")
        case 403:
            return Forbidden(f"{said}; the credential needs the right: {right}", str(right))
        case 404:
            return NotFound(said)
        case 409:
            return Conflict(said)
        case 410:
            return Expired(said)
        case 400 | 405 | 413 | 415 | 422:
            return Invalid(said)
        case 429:
            return _too_many(read, said, right)
        case 500 if _TWO_BUDGETS in words:
            return EvictionRefused(f"{said}; leave it one budget")
        case int() if code >= 500 and changes:
            return TimedOut(f"{said}; what was asked may have been done: look again")
        case int() if code >= 500:
            return Unreachable(said)
    return Malformed(f"{said} (status {code}), which is no answer to {right}")


def _too_many(read: Mapping[str, Any], said: str, right: Right) -> KubernetesError:
    if (words := _causes(read).get("DisruptionBudget")) is not None:
        found = _BUDGET.match(words)
        return EvictionRefused(f"{said} {words}".rstrip(), found[1] if found else "")
    if right.resource == "pods/eviction":
        return EvictionRefused(said)
    return Unreachable(f"{said}: it has too much to do")


def _causes(read: Mapping[str, Any]) -> Mapping[str, str]:
    """Why, in the API server's words, by reason."""
    details = read.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return {
        str(cause.get("reason")): str(cause.get("message") or "")
        for cause in (causes if isinstance(causes, list) else ())
        if isinstance(cause, dict)
    }


def _no_object(status: int, body: bytes, where: str, right: Right) -> KubernetesError:
    """Return the error of an answer that is no object. What is between may answer as well, with pages of its own."""
    if status == 401:
        return Unauthorized(f"{where} does not know who asks: see the kubeconfig's credential")
    begins = body[:60].decode("utf-8", "replace").strip()
    said = f"{where} answered to {right} with status {status} and {begins!r}"
    if status >= 500:
        return Unreachable(f"{said}: see whether it runs")
    return Malformed(f"{said}, which is no answer of Kubernetes: see whether it is an API server")
