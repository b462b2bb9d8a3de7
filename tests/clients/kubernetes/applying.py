"""Objects applied to a real API server, as pulumi-kubernetes does: server-side, with strict names of fields."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Self
from urllib.parse import urlencode

from tests.clients.kubernetes.real import ANY, RealKubernetes
from tidepool.clients.kubernetes.contract import NotFound
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.requests import Requests, answer_of

_WAIT_S = 30.0


class Applying:
    """Applies and deletes objects by ``exchange``; ``admin`` may everything."""

    def __init__(self, exchange: Exchange, admin: Requests) -> None:
        self._exchange = exchange
        self._admin = admin
        self._plural = cache(self._found_plural)

    @classmethod
    def to(cls, real: RealKubernetes, kubeconfig: str = "") -> Self:
        """As the user of a kubeconfig; by default as who may everything."""
        access = read_kubeconfig(kubeconfig or real.admin_kubeconfig)
        return cls(Exchange(access, timeout_s=30.0), real.requests())

    def close(self) -> None:
        self._exchange.close()
        self._admin.close()

    def apply(
        self, thing: Mapping[str, Any], *, dry: bool = False, manager: str = "tests", force: bool = True
    ) -> Mapping[str, Any]:
        """The object as the API server keeps it; without ``force`` fields of other managers are theirs.

        Raises:
            KubernetesError: it refuses it.
        """
        query = {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        how = "?" + urlencode(query | ({"dryRun": "All"} if dry else {}))
        body = json.dumps(_whole(thing)).encode()
        answer = self._exchange.ask(
            "PATCH", self.path(thing) + how, body, content="application/apply-patch+yaml", changes=True
        )
        return answer_of(answer.status, answer.body, "the API server", ANY, changes=True)

    def delete(self, thing: Mapping[str, Any], *, propagation: str = "Background") -> None:
        """Have it go; what is not there is no error."""
        how = "?" + urlencode({"propagationPolicy": propagation})
        answer = self._exchange.ask("DELETE", self.path(thing) + how, b"", changes=True)
        with contextlib.suppress(NotFound):
            answer_of(answer.status, answer.body, "the API server", ANY, changes=True)

    def get(self, path: str) -> Mapping[str, Any]:
        answer = self._exchange.ask("GET", path, b"")
        return answer_of(answer.status, answer.body, "the API server", ANY, changes=False)

    def define(self, definitions: Iterable[Mapping[str, Any]]) -> None:
        """Have the API server know kinds, and wait until it does."""
        for each in definitions:
            name = each["metadata"]["name"]
            self.apply(each)
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            end = time.monotonic() + _WAIT_S
            while not _is_established(self._admin.get(path, ANY)):
                assert time.monotonic() < end, f"{name} was not established"
                time.sleep(0.1)

    def path(self, thing: Mapping[str, Any]) -> str:
        version, meta = thing["apiVersion"], thing["metadata"]
        begins = f"/apis/{version}" if "/" in version else f"/api/{version}"
        inside = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
        return f"{begins}{inside}/{self._plural(begins, thing['kind'])}/{meta['name']}"

    def _found_plural(self, group: str, kind: str) -> str:
        end = time.monotonic() + _WAIT_S
        while True:
            for each in self._admin.get(group, ANY)["resources"]:
                if each["kind"] == kind and "/" not in each["name"]:
                    return str(each["name"])
            assert time.monotonic() < end, f"{group} knows no {kind}"
            time.sleep(0.2)


def _is_established(definition: Mapping[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _whole(value: Any) -> Any:
    """Whole numbers are told as such: on their way through Pulumi they were floats."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict() | Mapping():
            return {key: _whole(each) for key, each in value.items()}
        case list():
            return [_whole(each) for each in value]
    return value
