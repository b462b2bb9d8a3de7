"""Kubernetes' REST: lists in pages, objects, patches, deletions, each with the right that it needs; and what answers say.

An answer is an object, or a typed error. Nothing else passes for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from tidepool.clients.kubernetes.contract import (
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
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.objects import Right

_BUDGET: Final = re.compile(r"The disruption budget (\S+) ")
#: The API server says so with 500: it is for ever, and no fault of its own.
_TWO_BUDGETS: Final = "more than one PodDisruptionBudget"


class Expired(KubernetesError):
    """The page that was asked for is of a list that the API server no longer has."""


def answer_of(status: int, body: bytes, where: str, right: Right, *, changes: bool) -> Mapping[str, Any]:
    """The object that an answer holds: of ``where``, to a request for ``right`` that may have changed something.

    Raises:
        KubernetesError: it holds none; of the class that says what happened.
    """
    try:
        read = json.loads(body)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise _no_object(status, body, where, right)
    if read.get("kind") == "Status" and read.get("status") != "Success":
        raise _error_of(status, read, where, right, changes=changes)
    if not 200 <= status < 300:
        raise _no_object(status, body, where, right)
    return read


def _error_of(
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
    """Return the causes, in the API server's words, by reason."""
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


_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
#: What is JSON is YAML as well.
_APPLY: Final = "application/apply-patch+yaml"
_TRIES: Final = 8
_T = TypeVar("_T")
Json = Mapping[str, Any]


class Requests:
    """Requests to an API server, as JSON. ``page`` is how many objects of a list come at once."""

    def __init__(self, exchange: Exchange, page: int = 500) -> None:
        self._exchange = exchange
        self._page = page
        self.where = exchange.where

    def get(self, path: str, right: Right) -> Json:
        return self._ask("GET", path, right)

    def find(self, path: str, right: Right, kind: str) -> Json | None:
        """One object of that kind; None where the API server says that there is none."""
        try:
            found = self.get(path, right)
        except NotFound:
            return None
        if found.get("kind") != kind:
            raise self._malformed(right, f"it is a {found.get('kind')!r}, and no {kind}")
        return found

    def listed(
        self,
        path: str,
        right: Right,
        kind: str,
        read: Callable[[Json], _T],
        selectors: Mapping[str, str] | None = None,
    ) -> tuple[_T, ...]:
        """All objects of a list, read, in however many pages they come.

        Where the list that the pages are of is gone before the last one was asked for, it is asked for in one piece.
        """
        try:
            pages = self._pages(path, right, kind, {**(selectors or {}), "limit": str(self._page)})
        except Expired:
            pages = self._pages(path, right, kind, dict(selectors or {}))
        return tuple(self.read(right, read, page) for page in pages)

    def read(self, right: Right, read: Callable[[Json], _T], found: Json) -> _T:
        """Read the answer to ``right``, as ``read`` does.

        Raises:
            Malformed: it cannot be read.
        """
        try:
            return read(found)
        except (AttributeError, KeyError, TypeError, ValueError) as fault:
            raise self._malformed(right, repr(fault)) from fault

    def one(self, path: str, right: Right, kind: str, read: Callable[[Json], _T]) -> _T | None:
        found = self.find(path, right, kind)
        return None if found is None else self.read(right, read, found)

    def post(self, path: str, thing: Json, right: Right, *, changes: bool = True) -> Json:
        """Make an object, or have one worked out."""
        return self._ask("POST", path, right, thing, changes=changes)

    def put(self, path: str, thing: Json, right: Right) -> Json:
        return self._ask("PUT", path, right, thing, changes=True)

    def patch(self, path: str, changes: Json, right: Right) -> Json:
        """Merge into an object: what is None is taken away, lists are replaced."""
        return self._ask("PATCH", path, right, changes, content=_MERGE, changes=True)

    def apply(self, path: str, thing: Json, right: Right) -> Json:
        """Make an object, or have it say what ``thing`` says: server-side apply."""
        query = urlencode({"fieldManager": "tidepool", "force": "true"})
        return self._ask("PATCH", f"{path}?{query}", right, thing, content=_APPLY, changes=True)

    def alter(self, path: str, right: Right, kind: str, change: Callable[[Json], Json | None]) -> None:
        """Merge what ``change`` makes of an object into it, if nobody changed it in between; None: nothing.

        Raises:
            NotFound: there is none.
            Conflict: it is changed by others all the time.
        """
        for _ in range(_TRIES):
            if (seen := self.find(path, right, kind)) is None:
                raise NotFound(f"{self.where}: there is no {kind} {path.rpartition('/')[2]}")
            if (changes := change(seen)) is None:
                return
            version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
            try:
                self.patch(path, {**changes, "metadata": {**changes.get("metadata", {}), **version}}, right)
            except Conflict:
                continue
            return
        raise Conflict(f"{self.where}: others change {path} all the time")

    def delete(self, path: str, right: Right, *, uid: str | None = None, grace_s: int | None = None) -> bool:
        """Take an object away, if it has that uid; False where there is none.

        Raises:
            Conflict: it has another uid.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self._ask("DELETE", path, right, options, changes=True)
        except NotFound:
            return False
        return True

    def close(self) -> None:
        self._exchange.close()

    def _pages(self, path: str, right: Right, kind: str, query: dict[str, str]) -> list[Json]:
        found: list[Json] = []
        while True:
            page = self._ask("GET", f"{path}?{urlencode(query)}", right)
            items, meta = page.get("items"), page.get("metadata")
            if page.get("kind") != f"{kind}List" or not isinstance(items, list) or not isinstance(meta, dict):
                raise self._malformed(right, f"it is a {page.get('kind')!r}, and no list of {kind}s")
            if not all(isinstance(item, dict) for item in items):
                raise self._malformed(right, "an item is no object")
            found.extend(items)
            if not (more := meta.get("continue")):
                return found
            query["continue"] = str(more)

    def _ask(
        self,
        method: str,
        path: str,
        right: Right,
        thing: Json | None = None,
        *,
        content: str = _JSON,
        changes: bool = False,
    ) -> Json:
        body = b"" if thing is None else json.dumps(thing).encode()
        answer = self._exchange.ask(method, path, body, content=content if body else "", changes=changes)
        return answer_of(answer.status, answer.body, self.where, right, changes=changes)

    def _malformed(self, right: Right, why: str) -> Malformed:
        return Malformed(f"{self.where}: the answer to {right} is not what was asked for: {why}")


def named(collection: str, name: str) -> str:
    """The path of an object in a collection."""
    return f"{collection}/{quote(name, safe='')}"
