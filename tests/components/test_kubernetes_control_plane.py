"""What KubernetesControlPlane and KubernetesAccess register: who depends on whom, what is secret, what is told of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from pulumi.output import Unknown
from pulumi.runtime.mocks import MockResourceArgs

from tests.components.stack import DIGEST, connection, spec_with
from tests.components.stack import answers as those_of_slurm
from tidepool.cluster.pool import ConvergedPool, Kubernetes
from tidepool.cluster.shape import Shape
from tidepool.components import KubernetesAccess, KubernetesControlPlane, Location, Locations
from tidepool.infrastructures.local.graph import Local
from tidepool.testing import Graph, register

COMPONENT = "tidepool:components:KubernetesControlPlane physics"
BOOT, MACHINE, VOLUME = (
    "tidepool:local:Boot kube",
    "tidepool:local:Machine kube",
    "tidepool:local:Volume etcd",
)
ACCESS, CERTIFICATE = "tidepool:kubernetes:Access", "tidepool:keys:Certificate"
WORKS = "tidepool:kubernetes:ControlPlane physics"
POOL = ConvergedPool(
    name="shared", subnet=IPv4Network("10.77.4.0/24"), machines=2, shape=Shape(cpus=1, memory_mib=512)
)


def answers(args: MockResourceArgs) -> Mapping[str, Any]:
    made: Mapping[str, Mapping[str, Any]] = {
        "tidepool:keys:Authority": {"certificate": f"AUTHORITY {args.name}", "key": f"KEY {args.name}"},
        CERTIFICATE: {"certificate": f"CERTIFICATE {args.name}", "key": f"KEY {args.name}"},
        "tidepool:keys:SigningKey": {"privateKey": "KEY accounts", "publicKey": "PUBLIC accounts"},
        "tidepool:keys:EncryptionKey": {"key": "KEY secrets"},
        ACCESS: {"server": "https://theirs:6443", "authorityCertificate": "THEIRS"},
    }
    return made.get(args.typ) or those_of_slurm(args)


def registered(*, preview: bool = False, **changes: Any) -> Graph:
    def program() -> None:
        given = {"toolchain": "/toolchain", **changes}
        spec = spec_with(kubernetes=given.pop("kubernetes", Kubernetes()), pools=given.pop("pools", ()))
        local, image = Local("dev"), given.pop("digest", DIGEST)
        here = Location(local, local.network("net", spec.network), dict.fromkeys(spec.images, image))
        KubernetesControlPlane("physics", locations=Locations(spec, "dev", {"local": here}), **given)

    return register(program, answers, preview=preview)


def test_it_is_a_machine_its_keys_and_two_ways_to_it() -> None:
    graph = registered()
    mine = {name for name, parent in graph.children.items() if parent == COMPONENT}
    assert mine == {
        "tidepool:keys:Authority physics",
        "tidepool:keys:Authority physics-etcd",
        "tidepool:keys:SigningKey physics-accounts",
        "tidepool:keys:EncryptionKey physics-secrets",
        *(
            f"{CERTIFICATE} physics-{name}"
            for name in (
                "server", "kubelet-client", "etcd", "etcd-client", "controllers", "scheduler", "kubernetes",
                "kubernetes-admin",
            )
        ),
        VOLUME,
        BOOT,
        MACHINE,
        WORKS,
        f"{ACCESS} kubernetes",
        f"{ACCESS} kubernetes-admin",
    }  # fmt: skip


def test_its_machine_has_its_place_and_the_shape_that_was_asked_for() -> None:
    wanted = Kubernetes(shape=Shape(cpus=3, memory_mib=1500))
    machine = registered(kubernetes=wanted)[MACHINE]
    told = {key: machine.inputs[key] for key in ("machine", "address", "mac", "cpus", "memoryMib", "boot")}
    assert told == {
        "machine": "kube",
        "address": "10.77.0.6",
        "mac": "02:74:0a:4d:00:06",
        "cpus": 3,
        "memoryMib": 1500,
        "boot": "kube",
    }


def test_tidepool_s_way_is_there_when_the_control_plane_works_and_not_before() -> None:
    graph = registered()
    assert graph[WORKS].inputs["access"] == "kubernetes-admin"
    assert {f"{ACCESS} kubernetes-admin", MACHINE, BOOT} <= graph[WORKS].depends_on
    mine, admin = graph[f"{ACCESS} kubernetes"], graph[f"{ACCESS} kubernetes-admin"]
    assert WORKS in mine.depends_on
    assert WORKS not in admin.depends_on
    assert mine.inputs["checked"] is True
    assert admin.inputs["checked"] is False
    assert mine.inputs["machine"] == admin.inputs["machine"] == connection("kube")


def test_keys_are_secret_wherever_they_are() -> None:
    graph = registered()
    for each in graph.resources.values():
        open_inputs = {key: value for key, value in each.inputs.items() if key not in each.secrets}
        assert "KEY " not in json.dumps(open_inputs, default=str), each.name
    for name in (MACHINE, WORKS):
        assert graph[name].secrets == frozenset(), name
        assert "KEY" not in json.dumps(graph[name].inputs)
    assert "files" in graph[BOOT].secrets
    assert graph[f"{ACCESS} kubernetes"].secrets == {"kubeconfig"}
    assert {each.secrets for each in graph.of_type(CERTIFICATE).values()} == {frozenset({"authorityKey"})}
    assert graph.secret_outputs[COMPONENT] == frozenset()


def test_no_key_is_in_an_argument_and_private_ones_are_root_s_alone() -> None:
    inputs = registered()[BOOT].inputs
    assert "KEY" not in json.dumps(inputs["services"])
    for path, file in inputs["files"].items():
        is_public = path.endswith((".crt", ".pub", "/routes"))
        assert not (is_public and "KEY" in file["content"]), path
        assert file.get("mode", "0644") == ("0644" if is_public else "0600"), path
    # Whom the API server lets in, etcd does not.
    files = {path.rpartition("/")[2]: file["content"] for path, file in inputs["files"].items()}
    assert files["ca.crt"] == "AUTHORITY physics"
    assert files["etcd-ca.crt"] == "AUTHORITY physics-etcd"
    encryption = json.loads(files["encryption.json"])["resources"]
    assert [each["resources"] for each in encryption] == [["secrets"]]
    assert list(encryption[0]["providers"][0]) == ["secretbox"]


def test_who_has_which_certificate() -> None:
    made = registered().of_type(CERTIFICATE)
    told = {
        name.removeprefix("physics-"): (
            each.inputs["commonName"],
            each.inputs["organizations"],
            each.inputs["usages"],
        )
        for name, each in made.items()
    }
    assert told == {
        "server": ("kube-apiserver", [], ["server"]),
        "kubelet-client": ("tidepool:kube-apiserver", [], ["client"]),
        "etcd": ("etcd", [], ["server", "client"]),
        "etcd-client": ("kube-apiserver", [], ["client"]),
        "controllers": ("system:kube-controller-manager", [], ["client"]),
        "scheduler": ("system:kube-scheduler", [], ["client"]),
        "kubernetes": ("tidepool", [], ["client"]),
        "kubernetes-admin": ("tidepool:admin", ["system:masters"], ["client"]),
    }
    server = made["physics-server"].inputs
    assert server["addresses"] == ["10.241.0.1", "10.77.0.6", "127.0.0.1"]
    assert "kubernetes.default.svc" in server["names"]
    by_etcd = {name for name, each in made.items() if each.inputs["authorityCertificate"].endswith("-etcd")}
    assert by_etcd == {"physics-etcd", "physics-etcd-client"}


def test_its_api_server_is_closed() -> None:
    services = {each["name"]: each["argv"] for each in registered()[BOOT].inputs["services"]}
    assert list(services) == [
        "etcd",
        "kube-apiserver",
        "kube-apiserver-ready",
        "kube-controller-manager",
        "kube-scheduler",
    ]
    api = services["kube-apiserver"]
    for flag in (
        "--anonymous-auth=false",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-cluster-ip-range=10.241.0.0/16",
        "--advertise-address=10.77.0.6",
    ):
        assert flag in api
    assert not [flag for flag in api if flag.startswith("--allow-privileged")]
    assert "--admission-control-config-file=/etc/kubernetes/admission.json" in api
    (plugin,) = json.loads(registered()[BOOT].inputs["files"]["/etc/kubernetes/admission.json"]["content"])[
        "plugins"
    ]
    assert plugin["configuration"]["defaults"]["enforce"] == "baseline"
    controllers = services["kube-controller-manager"]
    # Certificates of kubelets are signed, and no others.
    signing = [flag.partition("=")[0] for flag in controllers if flag.startswith("--cluster-signing")]
    assert signing == [
        "--cluster-signing-kubelet-client-cert-file",
        "--cluster-signing-kubelet-client-key-file",
        "--cluster-signing-duration",
    ]
    for name in ("kube-controller-manager", "kube-scheduler"):
        assert "--bind-address=127.0.0.1" in services[name]
    assert "--listen-client-urls=https://127.0.0.1:2379" in services["etcd"]


def test_its_programs_are_mounted_read_only_and_its_objects_in_a_volume() -> None:
    boot = registered()[BOOT]
    mounts = [(each["source"], each["target"], each.get("readOnly", True)) for each in boot.inputs["mounts"]]
    assert mounts == [
        ("/toolchain", "/opt/kubernetes/bin", True),
        ("/volumes/etcd", "/var/lib/etcd", False),
    ]
    assert boot.by_input["mounts"] == {VOLUME}


def test_what_the_machine_runs_is_in_the_digest_and_nothing_else_is() -> None:
    def digest(**changes: Any) -> str:
        told = registered(**changes)[WORKS].inputs["digest"]
        assert len(told) == 16
        return str(told)

    usual = digest()
    others = [
        digest(toolchain="/another"),
        digest(api_server_flags=("--v=2",)),
        digest(pools=[POOL]),
        digest(kubernetes=Kubernetes(service_network=IPv4Network("10.250.0.0/16"))),
    ]
    assert len({usual, *others}) == 5
    assert digest(kubernetes=Kubernetes(shape=Shape(cpus=8, memory_mib=9000))) == usual
    assert digest(digest="e" * 64) == usual


def test_pods_are_reached_behind_their_machines() -> None:
    boot = registered(pools=[POOL])[BOOT].inputs
    text = boot["files"]["/etc/kubernetes/routes"]["content"]
    assert "route replace 10.240.0.0/24 via 10.77.4.1" in text
    assert "route replace 10.240.1.0/24 via 10.77.4.2" in text
    assert boot["services"][0]["argv"] == ["/sbin/ip", "-batch", "/etc/kubernetes/routes"]
    assert boot["services"][0]["once"] is True


def test_kubeconfigs_lead_where_each_is_used() -> None:
    graph = registered()
    text = json.loads(graph[f"{ACCESS} kubernetes"].inputs["kubeconfig"])
    cluster, user = text["clusters"][0]["cluster"], text["users"][0]["user"]
    assert cluster["server"] == "https://10.77.0.6:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"AUTHORITY physics"
    assert base64.b64decode(user["client-key-data"]) == b"KEY physics-kubernetes"
    within = json.loads(graph[BOOT].inputs["files"]["/etc/kubernetes/scheduler.kubeconfig"]["content"])
    assert within["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"


def test_its_outputs_hold_no_key() -> None:
    assert registered().outputs[COMPONENT] == {
        "access": "kubernetes",
        "adminAccess": "kubernetes-admin",
        "server": "https://10.77.0.6:6443",
        "authorityCertificate": "AUTHORITY physics",
        "connection": connection("kube"),
    }


def test_a_first_preview_registers_the_same_with_unknowns() -> None:
    preview, up = registered(preview=True), registered()
    assert preview.children == up.children
    assert isinstance(preview[WORKS].inputs["digest"], Unknown)
    assert preview.outputs[COMPONENT]["server"] == "https://10.77.0.6:6443"


def test_urns_are_what_they_were() -> None:
    """Another name or type here is a new Kubernetes for everybody who has one: give it an alias."""
    graph = registered()
    type = "tidepool:components:KubernetesControlPlane"
    assert graph[COMPONENT].urn == f"urn:pulumi:dev::cluster::{type}::physics"
    assert graph[MACHINE].urn == f"urn:pulumi:dev::cluster::{type}$tidepool:local:Machine::kube"
    assert graph[VOLUME].urn == f"urn:pulumi:dev::cluster::{type}$tidepool:local:Volume::etcd"
    authority = graph["tidepool:keys:Authority physics"].urn
    assert authority == f"urn:pulumi:dev::cluster::{type}$tidepool:keys:Authority::physics"


def test_a_kubernetes_that_is_there_is_a_way_to_it_and_nothing_else() -> None:
    graph = register(
        lambda: KubernetesAccess(
            "physics",
            locations=Locations(spec_with(), "dev", {}),
            kubeconfig=Path("/home/she/.kube/config"),
        ),
        answers,
    )
    component = "tidepool:components:KubernetesAccess physics"
    assert set(graph.resources) == {component, f"{ACCESS} kubernetes"}
    inputs = graph[f"{ACCESS} kubernetes"].inputs
    assert inputs == {
        "stack": "dev",
        "access": "kubernetes",
        "path": "/home/she/.kube/config",
        "checked": True,
    }
    assert graph.outputs[component] == {
        "access": "kubernetes",
        "server": "https://theirs:6443",
        "authorityCertificate": "THEIRS",
    }
