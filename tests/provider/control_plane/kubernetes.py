"""A stack with a control plane in it, and what tests ask of that."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.forking import fork_server
from tests.provider.stack import CHECKOUT, Stack, fleet
from tidepool.clients.kubernetes.client import KubernetesApi
from tidepool.clients.kubernetes.exchange import Answer, Exchange
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.infrastructures.kubernetes_access import dialer, load_access

KUBE = {"kind": "local", "stack": "dev", "machine": "kube"}
MINE, ADMIN = "kubernetes", "kubernetes-admin"


@dataclass
class ControlPlaneStack(Stack):
    """The program beside this file: a control plane, and nothing of Slurm."""

    program: Path = CHECKOUT / "tests/provider/control_plane/program"

    def want_control_plane(self, toolchain: Path | str, **more: Any) -> None:
        """Have the program make one of the programs in ``toolchain``."""
        self.want(fleet(), nodes={}, toolchain=str(toolchain), **more)

    def state(self, verb: str, *flags: str, stdin: str = "") -> str:
        """What the engine says of the stack's state, or is told of it."""
        words = ["-m", "tidepool.engine", "stack", verb, "--stack", self.name, *flags]
        ran = fork_server().run(words, self.project, self.env, stdin=stdin, timeout_s=60)
        assert ran.returncode == 0, ran
        return ran.stdout

    def client(self, access: str = MINE) -> KubernetesApi:
        """Tidepool's own client, or an administrator's."""
        return load_access(self.data, self.name, access).client(self.data)

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        access: str = ADMIN,
        kubeconfig: str = "",
    ) -> Answer:
        """A request by an access, or by another kubeconfig in the network of the control plane."""
        text = kubeconfig or load_access(self.data, self.name, access).kubeconfig
        exchange = Exchange(read_kubeconfig(text), dialer(KUBE, self.data), 15)
        try:
            sent = json.dumps(body).encode() if body else b""
            return exchange.ask(
                method, path, sent, content="application/json" if body else "", changes=bool(body)
            )
        finally:
            exchange.close()

    def made(self, path: str, thing: Mapping[str, Any]) -> dict[str, Any]:
        """An object that an administrator made."""
        answer = self.ask("POST", path, thing)
        assert answer.status == 201, answer
        found: dict[str, Any] = json.loads(answer.body)
        return found

    def is_ready(self) -> bool:
        """Whether the API server says that it is."""
        try:
            return self.ask("GET", "/readyz").status == 200
        except Exception:  # noqa: BLE001 - whatever it is, it is not ready
            return False

    def kubeconfig_of(self, certificate: str = "", key: str = "", token: str = "") -> str:
        """One for the same server, by another credential or none."""
        read = json.loads(load_access(self.data, self.name, ADMIN).kubeconfig)
        user = {
            "client-certificate-data": base64.b64encode(certificate.encode()).decode(),
            "client-key-data": base64.b64encode(key.encode()).decode(),
            "token": token,
        }
        read["users"][0]["user"] = {name: value for name, value in user.items() if value}
        return json.dumps(read)
