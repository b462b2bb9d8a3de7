"""A real control plane, from its first `up` to its end. All tests have one stack, each as the others left it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kubernetes.pki import Authority, asked
from tests.golden import CONVERGED, golden_image
from tests.machine_faults import pull_plug
from tests.provider.calls import Calls, plainly
from tests.provider.control_plane.kubernetes import ADMIN, KUBE, MINE, ControlPlaneStack
from tests.provider.stack import Ran, eventually
from tidepool.clients.kubernetes.contract import NEEDED
from tidepool.clients.kubernetes.objects import Right
from tidepool.infrastructures.kubernetes_access import Access, access_path, dialer, load_access
from tidepool.infrastructures.local import kernel
from tidepool.provider import certificates as pki
from tidepool.resources.kind import Refusal

pytestmark = pytest.mark.slow

SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SHOWN, HIDDEN = "shown-to-whoever-reads-etcd", "hidden-from-whoever-reads-etcd"


@dataclass(frozen=True)
class FirstPreview:
    """A preview before anything was there, and whether something was there after it."""

    ran: Ran
    made_something: bool


@pytest.fixture(scope="module")
def first_preview(stack: ControlPlaneStack) -> FirstPreview:
    ran = stack.done("preview")
    return FirstPreview(ran, (stack.data / "dev").exists())


@pytest.fixture(scope="module")
def running(stack: ControlPlaneStack, first_preview: FirstPreview) -> ControlPlaneStack:
    """The control plane, with a Secret and a ConfigMap of ours."""
    stack.done("up")
    for path, said in ((SECRETS, HIDDEN), (MAPS, SHOWN)):
        kind = "Secret" if path == SECRETS else "ConfigMap"
        data = {"word": base64.b64encode(said.encode()).decode() if kind == "Secret" else said}
        stack.made(path, {"apiVersion": "v1", "kind": kind, "metadata": {"name": "words"}, "data": data})
    return stack


@pytest.fixture
def kube(running: ControlPlaneStack) -> Iterator[ControlPlaneStack]:
    """The control plane as the other tests have it: what one wants of it is undone behind it."""
    wanted = running.wanted
    yield running
    if running.wanted != wanted:
        running.want_control_plane(wanted["toolchain"])
        running.done("up", "--refresh")


def test_a_preview_before_anything_is_there_tells_all_and_makes_nothing(first_preview: FirstPreview) -> None:
    assert first_preview.ran.changes == ["23 to create"]
    assert not first_preview.made_something
    assert "https://10.91.0.6:6443" in first_preview.ran.text


def test_up_gives_an_api_that_answers_tidepool_and_lacks_no_right(kube: ControlPlaneStack) -> None:
    with kube.client() as mine:
        assert mine.version().startswith("v1.")
        assert mine.missing_rights() == ()
        assert mine.nodes() == ()
        assert mine.pods() == ()
    for name in (MINE, ADMIN):
        path = access_path(kube.data, "dev", name)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_nothing_changes_when_nothing_changed(kube: ControlPlaneStack) -> None:
    assert kube.done("up", "--refresh").changes == ["23 unchanged"]
    assert kube.done("preview").changes == ["23 unchanged"]


def test_tidepool_may_do_what_it_needs_and_nothing_else(kube: ControlPlaneStack) -> None:
    with kube.client() as mine:
        more = [
            Right(verb, right.resource, right.group, right.namespace)
            for right in NEEDED
            for verb in ("create", "update", "patch", "delete", "deletecollection", "get", "list")
            if Right(verb, right.resource, right.group, right.namespace) not in NEEDED
        ]
        others = [
            Right("*", "*", "*"),
            Right("get", "secrets"),
            Right("list", "secrets", "", "kube-system"),
            Right("create", "secrets"),
            Right("create", "pods"),
            Right("create", "pods/exec"),
            Right("bind", "clusterroles", "rbac.authorization.k8s.io"),
            Right("impersonate", "users"),
            Right("approve", "signers", "certificates.k8s.io"),
            Right("create", "serviceaccounts/token", "", "kube-system"),
        ]
        assert set(mine.missing_rights((*more, *others))) == {*more, *others}
    with kube.client(ADMIN) as admin:
        assert admin.missing_rights((*more, *others)) == ()


def test_who_has_no_certificate_of_its_authority_is_nobody(kube: ControlPlaneStack) -> None:
    assert kube.ask("GET", "/version", kubeconfig=kube.kubeconfig_of()).status == 401
    stranger = Authority.made("physics kubernetes").sign("tidepool:admin", "system:masters")
    text = kube.kubeconfig_of(stranger.certificate, stranger.key)
    assert kube.ask("GET", "/version", kubeconfig=text).status == 401


def test_secrets_are_not_in_the_state_the_arguments_the_logs_or_etcd(kube: ControlPlaneStack) -> None:
    stored = b"".join(
        each.read_bytes() for each in (kube.data / "dev/volumes/etcd").rglob("*") if each.is_file()
    )
    assert SHOWN.encode() in stored
    assert HIDDEN.encode() not in stored
    keys = _private_keys(kube)
    assert len(keys) == 7
    checkpoint = (kube.root / "state/.pulumi/stacks/cluster/dev.json").read_text()
    machine = kernel.read_machine(kube.data, "dev", "kube")
    assert machine is not None
    pids = [str(service.pid) for service in machine.services if service.state == "up"]
    said_of_processes = kube.on(
        "kube", "cat", *(f"/proc/{pid}/{what}" for pid in pids for what in ("cmdline", "environ"))
    )
    assert "--secure-port=6443" in said_of_processes
    log = kernel.boot_log(kube.data, "dev", "kube")
    record = (kube.data / "dev/machines/kube/record.json").read_text()
    shown = kube.done("up").text
    for text in (checkpoint, said_of_processes, log, record, shown):
        assert "PRIVATE KEY" not in text
        assert not [key for key in keys if key in text]
    for each in (kube.data / "dev").rglob("*"):
        if each.is_file() and each.suffix == ".json":
            assert each.stat().st_mode & 0o077 == 0, each


def _private_keys(kube: ControlPlaneStack) -> set[str]:
    """The first line within each private key on the machine, and the key of what is stored."""
    folder = kube.data / "dev/machines/kube/upper/etc/kubernetes"
    found = {each.read_text().splitlines()[1] for each in (folder / "pki").glob("*.key")}
    for each in folder.rglob("*"):
        if each.suffix in (".key", ".kubeconfig", ".json"):
            assert each.stat().st_mode & 0o777 == 0o600, each
    encryption = json.loads((folder / "encryption.json").read_text())
    return found | {encryption["resources"][0]["providers"][0]["secretbox"]["keys"][0]["secret"]}


def test_a_token_lets_a_kubelet_ask_and_only_tidepool_approves(kube: ControlPlaneStack) -> None:
    until = datetime.now(UTC) + timedelta(minutes=5)
    with kube.client() as mine:
        token = mine.create_token("shared-1", until)
        text = kube.kubeconfig_of(token=token.text)
        name = _requested(kube, text, asked("shared-1"))
        # One that has a certificate of its own gets the next one: the approver works, and let the first one lie.
        admitted = _node_certificate(kube, "shared-2")
        renewal = _requested(kube, admitted, asked("shared-2"))
        eventually(lambda: {each.name: each.is_approved for each in mine.signing_requests()}[renewal])
        (first,) = [each for each in mine.signing_requests() if each.name == name]
        assert not first.is_approved
        assert first.node == "shared-1"
        mine.approve(first, "shared-1", token.id)
        eventually(lambda: bool(_certificate_of(kube, name)))
        # A node's certificate may do what that node does, and touches no other.
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "shared-1"}}
        assert kube.ask("POST", "/api/v1/nodes", node, kubeconfig=admitted).status == 403
        assert kube.ask("GET", SECRETS, kubeconfig=admitted).status == 403
        assert kube.ask("GET", "/api/v1/nodes", kubeconfig=text).status == 403
        for each in mine.signing_requests():
            mine.delete_signing_request(each.name)
        mine.delete_token(token.id)
    eventually(lambda: kube.ask("GET", "/version", kubeconfig=text).status == 401)


def _requested(kube: ControlPlaneStack, kubeconfig: str, pem: str) -> str:
    """The name of a request for a kubelet's certificate."""
    thing = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "csr-"},
        "spec": {
            "request": base64.b64encode(pem.encode()).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        },
    }
    # The API server hears of a token, and of what a group may, a little after they were written.
    deadline = time.monotonic() + 20
    while (answer := kube.ask("POST", REQUESTS, thing, kubeconfig=kubeconfig)).status in (401, 403):
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    assert answer.status == 201, answer
    return str(json.loads(answer.body)["metadata"]["name"])


def _certificate_of(kube: ControlPlaneStack, name: str) -> str:
    status = json.loads(kube.ask("GET", f"{REQUESTS}/{name}").body)["status"]
    return str(status.get("certificate") or "")


def _node_certificate(kube: ControlPlaneStack, node: str) -> str:
    """A kubeconfig of a node that was admitted before, signed by the cluster's own authority."""
    folder = kube.data / "dev/machines/kube/upper/etc/kubernetes/pki"
    authority = pki.Signed(*((folder / f"ca.{part}").read_text() for part in ("crt", "key")))
    subject = pki.Subject(f"system:node:{node}", ("system:nodes",), usages=("client",))
    made = pki.signed(subject, authority, 1, datetime.now(UTC))
    return kube.kubeconfig_of(made.certificate, made.key)


# Ways to it


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")
def test_kubectl_reaches_it_from_within_its_network(kube: ControlPlaneStack) -> None:
    words = ("-s", "dev", "kubectl", "get", "--output=jsonpath={.data.word}", "configmap", "words")
    ran = subprocess.run(
        [sys.executable, "-m", "tidepool.cli", *words],
        cwd=kube.project,
        env=kube.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, SHOWN), ran


def test_missing_rights_are_each_named_and_nothing_is_kept(kube: ControlPlaneStack, tmp_path: Path) -> None:
    ways = Calls(kube.data, "tidepool:kubernetes:Access")
    poor: dict[str, Any] = {
        "stack": "dev",
        "access": "poor",
        "kubeconfig": _node_certificate(kube, "shared-9"),
        "machine": KUBE,
    }
    with pytest.raises(Refusal) as refused:
        ways.create(ways.checked(poor))
    with Access.of(poor["kubeconfig"], Path("/"), KUBE).client(kube.data) as its:
        missing = its.missing_rights()
    assert 5 < len(missing) < len(NEEDED)
    said = str(refused.value)
    assert {right for right in NEEDED if str(right) in said} == {*missing}
    assert not access_path(kube.data, "dev", "poor").exists()


def test_an_api_that_is_not_there_is_said_so_and_nothing_is_kept(
    kube: ControlPlaneStack, tmp_path: Path
) -> None:
    ways = Calls(kube.data, "tidepool:kubernetes:Access")
    text = load_access(kube.data, "dev", MINE).kubeconfig.replace(":6443", ":6444")
    path = tmp_path / "config"
    path.write_text(text)
    lost = {"stack": "dev", "access": "lost", "path": str(path), "machine": KUBE}
    said = ways.failures(lost)["path"]
    assert "does not answer" in said
    assert "nothing was changed" in said
    path.write_text(text.replace(":6444", ":6443"))
    inputs = ways.checked(lost)
    made = ways.create(inputs)
    told = plainly(made.properties)
    assert told["server"] == "https://10.91.0.6:6443"
    assert told["authorityCertificate"].startswith("-----BEGIN CERTIFICATE-----")
    # One that is kept is not asked about again; another kubeconfig at that path is another digest.
    assert ways.read("dev/lost", made.properties, inputs).resource_id == "dev/lost"
    path.write_text(text)
    assert ways.failures(lost).keys() == {"path"}
    ways.delete("dev/lost", made.properties)
    assert not access_path(kube.data, "dev", "lost").exists()


def test_objects_that_somebody_changed_are_drift_and_mended(kube: ControlPlaneStack) -> None:
    assert kube.ask("DELETE", f"{RBAC}/clusterrolebindings/tidepool").status == 200
    ran = kube.done("preview", "--refresh")
    assert "[diff: ~state]" in ran.text
    kube.done("up", "--refresh")
    with kube.client() as mine:
        eventually(lambda: mine.missing_rights() == ())
    assert kube.done("up", "--refresh").changes == ["23 unchanged"]


def test_a_file_that_somebody_changed_is_written_anew(kube: ControlPlaneStack) -> None:
    path = access_path(kube.data, "dev", MINE)
    path.write_text(path.read_text().replace("6443", "6444"))
    kube.done("up", "--refresh")
    with kube.client() as mine:
        assert mine.missing_rights() == ()


# Faults


def _word(kube: ControlPlaneStack) -> Any:
    return json.loads(kube.ask("GET", f"{MAPS}/words").body)["data"]["word"]


def test_an_api_server_that_is_killed_comes_back_with_all_objects(kube: ControlPlaneStack) -> None:
    for service in ("kube-apiserver", "etcd"):
        pid = kube.pid_of(service, "kube")
        kube.on("kube", "kill", "-KILL", str(pid))
        eventually(lambda pid=pid, service=service: kube.pid_of(service, "kube") not in (0, pid))  # type: ignore[misc]
        eventually(kube.is_ready)
        assert _word(kube) == SHOWN
    assert kube.done("up", "--refresh").changes == ["23 unchanged"]


def test_a_machine_that_lost_its_power_boots_with_all_objects(kube: ControlPlaneStack) -> None:
    pull_plug(kube.data, "dev", "kube")
    kube.done("up", "--refresh")
    assert kube.is_ready()
    assert _word(kube) == SHOWN
    assert json.loads(kube.ask("GET", f"{SECRETS}/words").body)["data"]["word"]


def test_a_machine_that_does_not_run_is_said_so_at_once(kube: ControlPlaneStack) -> None:
    from tidepool.clients.kubernetes.contract import Unreachable

    kernel.stop_machine(kube.data, "dev", "kube")
    with kube.client() as mine, pytest.raises(Unreachable, match="machine kube of stack dev is not running"):
        mine.nodes()
    kube.done("up", "--refresh")
    assert kube.is_ready()


def test_a_flag_that_it_does_not_know_is_told_and_with_another_objects_are_still_there(
    kube: ControlPlaneStack,
) -> None:
    folder = kube.wanted["toolchain"]
    kube.want_control_plane(folder, flags=["--no-such-flag"], timeout=15)
    ran = kube.refused("up")
    assert "does not work after 15 s" in ran.text
    assert "unknown flag: --no-such-flag" in ran.text
    kube.want_control_plane(folder, flags=["--max-requests-inflight=300"])
    assert kube.done("preview").changes == ["2 to update", "21 unchanged"]
    # It boots again.
    assert kube.done("up").changes == ["2 updated", "21 unchanged"]
    after = kube.pid_of("kube-apiserver", "kube")
    assert "--max-requests-inflight=300" in kube.on("kube", "cat", f"/proc/{after}/cmdline")
    assert _word(kube) == SHOWN


def test_a_certificate_that_comes_near_its_end_is_renewed_and_taken_up(kube: ControlPlaneStack) -> None:
    assert _served_until(kube) > datetime.now(UTC) + timedelta(days=300)
    _make_old(kube, "physics-server")
    ran = kube.done("preview")
    # Its boot and what is waited for follow.
    assert ran.changes == ["3 to update", "20 unchanged"]
    kube.done("up", "--refresh")
    assert _served_until(kube) > datetime.now(UTC) + timedelta(days=300)
    assert _word(kube) == SHOWN
    assert kube.done("up", "--refresh").changes == ["23 unchanged"]


def _served_until(kube: ControlPlaneStack) -> datetime:
    """Until when the certificate is good that the API server shows."""
    import ssl

    with dialer(KUBE, kube.data)("10.91.0.6", 6443, 10) as plain:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as stream:
            shown = stream.getpeercert(binary_form=True)
    assert shown is not None
    return pki.ends(ssl.DER_cert_to_PEM_cert(shown))


def _make_old(kube: ControlPlaneStack, name: str) -> None:
    """Have a certificate in the state be one that was signed long ago."""
    state = json.loads(kube.state("export", "--show-secrets"))
    (found,) = [
        each for each in state["deployment"]["resources"] if each["urn"].endswith(f"keys:Certificate::{name}")
    ]
    told = found["outputs"]
    subject = pki.Subject(
        told["commonName"], names=tuple(told["names"]), addresses=tuple(told["addresses"]), usages=("server",)
    )
    long_ago = datetime.now(UTC) - timedelta(days=300)
    by = pki.Signed(*(_open(told[key]) for key in ("authorityCertificate", "authorityKey")))
    old = pki.signed(subject, by, 365, long_ago)
    told["certificate"] = old.certificate
    told["key"]["plaintext"] = json.dumps(old.key)
    kube.state("import", stdin=json.dumps(state))


def _open(value: Any) -> str:
    return str(json.loads(value["plaintext"])) if isinstance(value, dict) else str(value)


def test_on_another_image_it_is_another_machine_with_the_same_objects(kube: ControlPlaneStack) -> None:
    golden_image(CONVERGED)
    before = kernel.read_machine(kube.data, "dev", "kube")
    kube.want_control_plane(kube.wanted["toolchain"], image=CONVERGED)
    # The image has the resource of its own name, with its component.
    assert kube.done("preview").changes == [
        "2 to create",
        "2 to delete",
        "2 to replace",
        "6 changes. 19 unchanged",
    ]
    kube.done("up")
    after = kernel.read_machine(kube.data, "dev", "kube")
    assert before is not None
    assert after is not None
    assert before.image != after.image
    # The resource is there when it works again, not when its machine boots.
    assert kube.is_ready()
    assert _word(kube) == SHOWN
    with kube.client() as mine:
        assert mine.missing_rights() == ()
    assert kube.done("up", "--refresh").changes == ["23 unchanged"]
