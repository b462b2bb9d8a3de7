"""Questions to a control plane of ours besides its API: whether all of it works, and its first objects."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

from tidepool.clients.kubernetes.contract import KubernetesError, NotFound, Unauthorized
from tidepool.clients.kubernetes.exchange import Dial, Exchange
from tidepool.clients.kubernetes.first_objects import FirstObject
from tidepool.clients.kubernetes.kubeconfig import Access, read_kubeconfig
from tidepool.clients.kubernetes.objects import Right
from tidepool.clients.kubernetes.requests import Requests

_ANSWER_S: Final = 5.0
_LOOPBACK: Final = "127.0.0.1"
#: Those beside the API server: where each says how it is, on the machine itself, to whoever asks.
_BESIDE: Final = {"kube-controller-manager": (10257, "/healthz"), "kube-scheduler": (10259, "/readyz")}
#: The controllers make one in each namespace, and without it there are no pods.
_FIRST_ACCOUNT: Final = "/api/v1/namespaces/default/serviceaccounts/default"


class ControlPlane:
    """A control plane, as its administrator's ``kubeconfig`` reaches it; ``dial`` connects from its own machine.

    Where the API server does not say what is asked, it is a `KubernetesError`.

    Raises:
        ValueError: the kubeconfig is none.
    """

    def __init__(self, kubeconfig: str, dial: Dial) -> None:
        api = read_kubeconfig(kubeconfig)
        self._api = Exchange(api, dial, _ANSWER_S)
        self._requests = Requests(self._api)
        self._beside = {
            name: (Exchange(_known_by(api, port), dial, _ANSWER_S), path)
            for name, (port, path) in _BESIDE.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.close()
        for exchange, _path in self._beside.values():
            exchange.close()

    def what_is_down(self) -> str:
        """Say in a line what of it does not work; empty where all does.

        Raises:
            Unauthorized: the API server answers, and does not know who asks.
        """
        asked = {self._api.where: (self._api, "/readyz"), **self._beside}
        for name, (exchange, path) in asked.items():
            if said := _illness(exchange, path):
                return f"{name} {said}"
        return ""

    def makes_pods(self) -> bool:
        """Return whether the controllers have come as far as to let pods be made."""
        try:
            self._requests.get(_FIRST_ACCOUNT, Right("get", "serviceaccounts"))
        except NotFound:
            return False
        return True

    def apply(self, wanted: FirstObject) -> None:
        """Make an object, or have it say what it should."""
        self._requests.apply(wanted.path, wanted.body, Right("patch", wanted.name))

    def has(self, wanted: FirstObject) -> bool:
        """Return whether an object is there, and says what it should."""
        try:
            return wanted.is_as_in(self._requests.get(wanted.path, Right("get", wanted.name)))
        except NotFound:
            return False


def _known_by(api: Access, port: int) -> Access:
    """Another server of the API server's machine, with its certificate, who asks nobody who they are."""
    return Access(_LOOPBACK, port, "", api.authority, _LOOPBACK, {}, Path(), {})


def _illness(exchange: Exchange, path: str) -> str:
    """Say what is wrong with a server, as it says or as is seen, in words that follow its name; empty where it is well."""
    try:
        answer = exchange.ask("GET", path)
    except KubernetesError as error:
        return error.symptom or str(error)
    if answer.status == 401:
        raise Unauthorized(f"{exchange.where} does not know who asks: see the kubeconfig's credential")
    if answer.status == 200:
        return ""
    lines = answer.body.decode(errors="replace").splitlines()
    failing = [line.removeprefix("[-]").partition(" ")[0] for line in lines if line.startswith("[-]")]
    return f"is not ready: {', '.join(failing) or f'it answers {path} with status {answer.status}'}"
