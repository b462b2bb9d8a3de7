"""Kubernetes' REST: lists in pages, objects, patches, deletions; each with the right that it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from tidepool.clients.kubernetes.answers import Expired, answer_of
from tidepool.clients.kubernetes.errors import Conflict, Malformed, NotFound
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.objects import Right

_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
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
        """One object.

        Raises:
            NotFound: there is none.
        """
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
        try:
            return tuple(map(read, pages))
        except (KeyError, TypeError, ValueError) as fault:
            raise self._malformed(right, repr(fault)) from fault

    def post(self, path: str, thing: Json, right: Right, *, changes: bool = True) -> Json:
        """Make an object, or have one worked out."""
        return self._ask("POST", path, right, thing, changes=changes)

    def put(self, path: str, thing: Json, right: Right) -> Json:
        """Put another one in an object's place."""
        return self._ask("PUT", path, right, thing, changes=True)

    def patch(self, path: str, changes: Json, right: Right) -> Json:
        """Merge into an object: what is None is taken away, lists are replaced."""
        return self._ask("PATCH", path, right, changes, content=_MERGE, changes=True)

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
        """Let go of connections."""
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
