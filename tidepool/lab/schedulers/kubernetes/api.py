"""`Api`: what the laboratory asks of the stack's API server, as its administrator, through the network of its machine."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Self
from urllib.parse import urlencode

from tidepool.clients.kubernetes.contract import Conflict, KubernetesError, NotFound
from tidepool.clients.kubernetes.exchange import Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.clients.kubernetes.objects import Right
from tidepool.clients.kubernetes.requests import Requests, answer_of, named
from tidepool.cluster.names import KUBERNETES_ADMIN_ACCESS
from tidepool.infrastructures.kubernetes_access import NoAccess, dialer, load_access
from tidepool.lab.errors import LabError, SchedulerFailed
from tidepool.lab.testbed import Testbed

ANY: Final = Right("*", "*")
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.05
_REQUESTS: Final = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

Object = Mapping[str, Any]


class Api:
    """One API server. All may raise `SchedulerFailed`, with what it said."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._requests = Requests(exchange)

    @classmethod
    def of(cls, testbed: Testbed) -> Self:
        """The stack's own. Nothing is asked yet.

        Raises:
            LabError: there is no way to it.
        """
        try:
            way = load_access(testbed.data, testbed.stack, KUBERNETES_ADMIN_ACCESS)
        except NoAccess as error:
            raise LabError(str(error)) from error
        return cls(Exchange(read_kubeconfig(way.kubeconfig), dialer(way.machine, testbed.data), _TIMEOUT_S))

    def close(self) -> None:
        self._requests.close()

    def get(self, path: str) -> Object:
        with _failures():
            return self._requests.get(path, ANY)

    def find(self, path: str, kind: str) -> Object | None:
        """Return an object, or None where there is none."""
        with _failures():
            return self._requests.find(path, ANY, kind)

    def make(self, collection: str, thing: Object) -> Object:
        """Make an object; raises where there is one of its name."""
        with _failures():
            return self._requests.post(collection, thing, ANY)

    def put(self, collection: str, thing: Object, *, wait_s: float = 0.0) -> None:
        """Make an object, or have it say what ``thing`` says; tried again for ``wait_s`` while it is refused."""
        deadline = time.monotonic() + wait_s
        while True:
            try:
                self._requests.apply(named(collection, thing["metadata"]["name"]), thing, ANY)
            except KubernetesError as error:
                if time.monotonic() > deadline:
                    raise SchedulerFailed(str(error)) from error
                time.sleep(_LOOK_S)
            else:
                return

    def delete(self, path: str, *, grace_s: int | None = None, labels: str = "") -> None:
        """Have an object go, or all of a collection, or those of it that have ``labels``; what is not there is no error.

        What belongs to it goes as well, behind it; pods may be given ``grace_s`` seconds to end.
        """
        asked = {
            "propagationPolicy": "Background",
            **({"labelSelector": labels} if labels else {}),
            **({"gracePeriodSeconds": grace_s} if grace_s is not None else {}),
        }
        with _failures(), contextlib.suppress(NotFound, Conflict):
            answer = self.exchange.ask("DELETE", f"{path}?{urlencode(asked)}", changes=True)
            answer_of(answer.status, answer.body, self._requests.where, ANY, changes=True)

    def remove(self, path: str, kind: str) -> None:
        """Have an object go, and wait until it is gone."""
        self.delete(path)
        self.wait(lambda: self.find(path, kind) is None, f"{path} is gone")

    def define(self, definitions: Iterable[Object]) -> None:
        """Have it know kinds of objects, and wait until it does. Those that are there already stay as they are."""
        paths = []
        for definition in definitions:
            path = named(_DEFINITIONS, definition["metadata"]["name"])
            if self.find(path, "CustomResourceDefinition") is None:
                self.make(_DEFINITIONS, definition)
            paths.append(path)
        for path in paths:
            self.wait(partial(self._serves, path), f"{path} is served")

    def _serves(self, definition: str) -> bool:
        conditions = self.get(definition).get("status", {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    def wait(self, is_so: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Wait until something is so, looking often; raises SchedulerFailed after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if time.monotonic() > deadline:
                raise SchedulerFailed(f"within {timeout_s:g} s it did not come to this at Kubernetes: {what}")
            time.sleep(_LOOK_S)

    def requests(self) -> Counter[str]:
        """Return how many requests it has had since it began, by verb and resource: ``POST pods``."""
        with _failures():
            answer = self.exchange.ask("GET", "/metrics")
        if answer.status != 200:
            raise SchedulerFailed(f"{self._requests.where} does not tell its metrics: status {answer.status}")
        return request_counts(answer.body.decode())


def request_counts(metrics: str) -> Counter[str]:
    """Add up ``apiserver_request_total`` of a page of metrics by verb and resource, whatever came of the requests."""
    counts: Counter[str] = Counter()
    for found in _REQUESTS.finditer(metrics):
        labels = dict(_LABEL.findall(found["labels"]))
        resource = "/".join(part for part in (labels.get("resource"), labels.get("subresource")) if part)
        counts[f"{labels['verb']} {resource or 'other'}"] += round(float(found["count"]))
    return counts


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except KubernetesError as error:
        raise SchedulerFailed(str(error)) from error
