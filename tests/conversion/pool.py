"""A real pool for tests: a slurmctld, a Kubernetes control plane, and machines of the golden image that serve either.

Nothing of Pulumi is in it: machines are made by `tidepool.infrastructures.local.kernel`, of the boots that components make them of.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.clients.kubernetes.pki import Authority, Pair
from tests.cluster.specs import POOL, spec_mapping
from tests.conversion import in_pod
from tests.golden import CONVERGED, golden_image
from tests.infrastructures.local import golden
from tests.infrastructures.local.stacks import CIDR, Stack, left_of
from tests.toolchain import kubernetes_tools
from tidepool.clients.kubernetes.client import KubernetesApi, connect
from tidepool.clients.kubernetes.contract import Unreachable
from tidepool.clients.kubernetes.control_plane import ControlPlane
from tidepool.clients.kubernetes.exchange import Answer, Exchange
from tidepool.clients.kubernetes.first_objects import API_SERVER_USER, first_objects
from tidepool.clients.kubernetes.kubeconfig import read_kubeconfig
from tidepool.cluster import kubelet_files
from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.cluster.kubelet_files import PodRoute, pod_routes
from tidepool.cluster.roles import Role
from tidepool.cluster.slurm_conf import configuration, names_slots
from tidepool.cluster.spec import ClusterSpec
from tidepool.components import control_plane_boot as kube
from tidepool.components.boots import Keys
from tidepool.components.converged_node_pool import converged_boot, role_files
from tidepool.conversion.machine import RoleFile, RoleProgram, kubernetes_files
from tidepool.infrastructures import contract as parts
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.kubernetes_access import dialer
from tidepool.infrastructures.local.kernel import (
    MachineSpec,
    NetworkSpec,
    create_machine,
    create_network,
    execute,
    wait_ready,
)

_Part = TypeVar("_Part", File[str], Folder, Mount[str], Service)
KUBE = "10.77.0.6"
SERVER = f"https://{KUBE}:{kube.API_PORT}"


@dataclass
class Pool:
    """A pool that runs. ``admin`` is the kubeconfig of who may everything."""

    stack: Stack
    spec: ClusterSpec
    keys: Keys
    authority: Authority
    admin: str = field(repr=False)

    @property
    def routes(self) -> Sequence[PodRoute]:
        assert self.spec.kubernetes is not None
        return pod_routes(self.spec.kubernetes.pod_network, self.spec.pools)

    @contextmanager
    def client(self) -> Iterator[KubernetesApi]:
        with connect(self.admin, dial=dialer(_connection(self.stack, "kube"), self.stack.data)) as client:
            yield client

    def ask(self, method: str, path: str, body: Any = None) -> str:
        """What the API answers an administrator, who gets what was asked for."""
        answer = self._answer(method, path, body)
        assert answer.status in (200, 201), (path, answer)
        return answer.body.decode()

    def _answer(self, method: str, path: str, body: Any = None) -> Answer:
        exchange = Exchange(
            read_kubeconfig(self.admin), dialer(_connection(self.stack, "kube"), self.stack.data), 15
        )
        try:
            sent = json.dumps(body).encode() if body else b""
            return exchange.ask(
                method, path, sent, content="application/json" if body else "", changes=bool(body)
            )
        finally:
            exchange.close()

    def program(self, node: str, token: str = "none.none", **more: Any) -> RoleProgram:
        """What gives it its roles; its kubelet asks for a certificate with ``token``."""
        by_role = role_files(self.keys, authority=self.authority.pair.certificate, routes=self.routes)
        pods = next(route.subnet for route in self.routes if route.node == node)

        def files(role: Role) -> Sequence[RoleFile]:
            found = [
                RoleFile(file.path, _content(file), file.mode, file.owner, file.group)
                for file in by_role[role].files
            ]
            if role == "slurm":
                return found
            bootstrap = kubelet_files.bootstrap_kubeconfig(SERVER, self.authority.pair.certificate, token)
            return kubernetes_files(found, pods=pods, bootstrap=bootstrap)

        return RoleProgram(transport(_connection(self.stack, node), self.stack.data), node, files, **more)

    def join_kubernetes(self, node: str) -> RoleProgram:
        """From a machine without a role to a node that is ready."""
        with self.client() as client:
            token = client.create_token(node, datetime.now(UTC) + timedelta(minutes=5))
            program = self.program(node, token.text)
            program.take("kubernetes")

            def is_ready() -> bool:
                for request in client.signing_requests():
                    if request.node == node and not request.is_approved:
                        client.approve(request, node, token.id)
                found = client.node(node)
                return found is not None and found.takes_pods

            until(is_ready, f"{node} is no node", 30)
            client.delete_token(token.id)
        return program

    def leave_kubernetes(self, node: str) -> None:
        """Back to a machine without a role."""
        self.program(node).lose("kubernetes")
        with self.client() as client:
            client.delete_node(node)

    def run_pod(
        self, name: str, node: str, *command: str, mounts: Sequence[dict[str, str]] = (), **spec: Any
    ) -> None:
        container = {
            "name": "c",
            "image": "tidepool/busybox:1",
            "imagePullPolicy": "Never",
            "command": command,
            "volumeMounts": list(mounts),
        }
        body = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": node,
                "containers": [container],
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                **spec,
            },
        }
        # What pods may ask for in a namespace is known to the API server a little after it was written.
        deadline = time.monotonic() + 20
        while (answer := self._answer("POST", "/api/v1/namespaces/default/pods", body)).status == 403:
            assert time.monotonic() < deadline, answer
            time.sleep(0.1)
        assert answer.status == 201, answer

    def let_pods_ask_for(self, level: str) -> None:
        """As an administrator does: how much of their machine pods may have (Pod Security's level)."""
        namespace = json.loads(self.ask("GET", "/api/v1/namespaces/default"))
        namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = level
        self.ask("PUT", "/api/v1/namespaces/default", namespace)

    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask("GET", f"/api/v1/namespaces/default/pods/{name}"))
        return found

    def pod_says(self, name: str) -> str:
        return self.ask("GET", f"/api/v1/namespaces/default/pods/{name}/log")

    def in_pod(self, name: str, *command: str) -> str:
        """What a command says in its container."""
        dial = dialer(_connection(self.stack, "kube"), self.stack.data)
        return in_pod.execute(read_kubeconfig(self.admin), dial, name, *command)

    def until_pod(self, name: str, phase: str) -> dict[str, Any]:
        until(lambda: self.pod(name)["status"]["phase"] == phase, f"{name} is not {phase}", 30)
        return self.pod(name)

    def slurm(self, *argv: str) -> str:
        """What a command of Slurm says on the controller."""
        ended = self.stack.run(*argv, on="ctl")
        assert ended.code == 0, ended
        return ended.stdout


def until(holds: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"{what} after {timeout_s:g} s"
        time.sleep(0.02)


@contextmanager
def running_pool(data: Path, folder: Path, machines: int = 2) -> Iterator[Pool]:
    """One of so many machines, none of which has a role. Nothing of it is left behind."""
    tools, root = kubernetes_tools(), golden_image(CONVERGED).root
    mapping = spec_mapping(pools=[POOL], kubernetes={}, fleets=[])
    mapping["partitions"] = [{"name": "main", "fleets": ["shared"]}]
    spec = ClusterSpec.model_validate(mapping)
    (folder / "home").mkdir()
    keys = Keys(munge=base64.b64encode(secrets.token_bytes(128)).decode(), ssh="ssh-ed25519 AAAA nobody")
    authority = Authority.made("kubernetes")
    stack = Stack(data, "pool", root)
    admin = _kubeconfig(authority, authority.sign("admin", "system:masters"), SERVER)
    made = Pool(stack, spec, keys, authority, admin)
    try:
        create_network(data, NetworkSpec("pool", "net", CIDR))
        create_machine(data, _control_plane(made, tools.folder, folder))
        _make_slurm(made, folder / "home")
        _wait_for_api(made)
        for slot in spec.pools[0].slots()[:machines]:
            create_machine(data, machine_spec(made, slot.node_name, str(slot.address), folder / "home"))
            wait_ready(data, "pool", slot.node_name, 30)
        yield made
    finally:
        stack.delete_all()
    assert left_of(stack) == []


def machine_spec(pool: Pool, node: str, address: str, home: Path) -> MachineSpec:
    """A machine of the pool, as its infrastructure makes it."""
    boot = converged_boot(
        pool.keys,
        home=str(home),
        controllers=["ctl"],
        pool=pool.spec.pools[0],
        stack=pool.stack.name,
        is_named=names_slots(pool.spec),
    )
    shape = pool.spec.pools[0].shape
    return replace(_machine(pool, node, address, boot), cpus=shape.cpus, memory_mib=shape.memory_mib)


def _machine(pool: Pool, name: str, address: str, boot: parts.Boot) -> MachineSpec:
    plain = golden.machine(pool.stack.name, str(pool.stack.image), name, address, golden.Parts())
    return replace(
        plain,
        services=tuple(_as(Service, each) for each in boot.services),
        files=tuple(_as(File, each) for each in boot.files),
        folders=tuple(_as(Folder, each) for each in boot.folders),
        mounts=tuple(_as(Mount, each) for each in boot.mounts),
        containers=boot.containers,
    )


def _as(cls: type[_Part], part: object) -> _Part:
    return cls(**{each.name: getattr(part, each.name) for each in fields(part)})  # type: ignore[arg-type]


def _content(file: parts.File) -> bytes:
    assert isinstance(file.content, str)
    return base64.b64decode(file.content) if file.is_base64 else file.content.encode()


def _connection(stack: Stack, machine: str) -> dict[str, str]:
    return {"kind": "local", "stack": stack.name, "machine": machine}


def _kubeconfig(authority: Authority, pair: Pair, server: str) -> str:
    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    cluster = {"server": server, "certificate-authority-data": encoded(authority.pair.certificate)}
    user = {
        "client-certificate-data": encoded(pair.certificate),
        "client-key-data": encoded(pair.key),
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def _control_plane(pool: Pool, tools: Path, folder: Path) -> MachineSpec:
    authority, etcd = pool.authority, Authority.made("etcd")
    (folder / "etcd").mkdir()

    def pair(signed: Pair) -> kube.Pair:
        return kube.Pair(signed.certificate, signed.key)

    accounts = rsa.generate_private_key(65537, 2048)
    local_address = f"https://127.0.0.1:{kube.API_PORT}"
    keys = kube.ControlPlaneKeys(
        authority=pair(authority.pair),
        server=pair(authority.sign("kube-apiserver", addresses=(KUBE, "127.0.0.1", "10.241.0.1"))),
        kubelet_client=pair(authority.sign(API_SERVER_USER)),
        etcd_authority=etcd.pair.certificate,
        etcd=pair(etcd.sign("etcd", addresses=("127.0.0.1",))),
        etcd_client=pair(etcd.sign("kube-apiserver")),
        accounts_private=accounts.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
        accounts_public=accounts.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode(),
        encryption=kube.encryption_configuration(_random_key()),
        controllers=_kubeconfig(authority, authority.sign("system:kube-controller-manager"), local_address),
        scheduler=_kubeconfig(authority, authority.sign("system:kube-scheduler"), local_address),
    )
    boot = kube.control_plane_boot(
        keys,
        address=IPv4Address(KUBE),
        services=IPv4Network("10.241.0.0/16"),
        pods=pool.routes,
        toolchain=str(tools),
        etcd=str(folder / "etcd"),
    )
    return _machine(pool, "kube", KUBE, boot)


def _random_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _make_slurm(pool: Pool, home: Path) -> None:
    assert isinstance(pool.keys.munge, str)
    data, stack = pool.stack.data, pool.stack.name
    controller = golden.munged(pool.keys.munge) + golden.slurmctld() + golden.home(str(home))
    address = str(pool.spec.own_addresses.controller)
    create_machine(data, golden.machine(stack, str(pool.stack.image), "ctl", address, controller))
    for file, text in reversed(list(configuration(pool.spec).items())):
        write = f"cat >/etc/slurm/{file}.new && mv /etc/slurm/{file}.new /etc/slurm/{file}"
        done = execute(data, stack, "ctl", ["sh", "-c", write], stdin=text, timeout_s=10)
        assert done.code == 0, done
    wait_ready(data, stack, "ctl", 30)


def _wait_for_api(pool: Pool) -> None:
    def works() -> bool:
        with ControlPlane(pool.admin, dialer(_connection(pool.stack, "kube"), pool.stack.data)) as plane:
            try:
                return not plane.what_is_down() and plane.makes_pods()
            except Unreachable:
                return False

    until(works, "the control plane does not work", 60)
    with ControlPlane(pool.admin, dialer(_connection(pool.stack, "kube"), pool.stack.data)) as plane:
        for each in first_objects():
            plane.apply(each)
