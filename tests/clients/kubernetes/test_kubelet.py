"""What a real kubelet asks for is what is approved, of exactly the node whose token it has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.clients.kubernetes.pki import asked as written_for
from tests.clients.kubernetes.real import RealKubernetes, kubeconfig
from tests.clients.kubernetes.world import RealWorld
from tests.toolchain import kubernetes_tools
from tidepool.clients.kubernetes.client import connect
from tidepool.clients.kubernetes.contract import KUBELET_SIGNER, Forbidden, Invalid
from tidepool.clients.kubernetes.objects import BootstrapToken

pytestmark = pytest.mark.slow

Start = Callable[[str, BootstrapToken], Path]


@pytest.fixture
def start(real: RealKubernetes, tmp_path: Path) -> Iterator[Start]:
    """Starts the kubelet of a node with a token; gives where its kubeconfig will be. It finds no containers, later."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(node: str, token: BootstrapToken) -> Path:
        folder = tmp_path / node
        folder.mkdir()
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failSwapOn": False,
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "containerRuntimeEndpoint": f"unix://{folder}/nothing.sock",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "healthzPort": 0,
        }
        (folder / "config.json").write_text(json.dumps(config))
        text = kubeconfig(real.port, real.authority.pair.certificate, token=token.text)
        (folder / "bootstrap.json").write_text(text)
        command = [
            "setpriv", "--pdeathsig", "KILL", str(kubernetes_tools().path("kubelet")),
            f"--config={folder}/config.json", f"--bootstrap-kubeconfig={folder}/bootstrap.json",
            f"--kubeconfig={folder}/kubeconfig.json", f"--cert-dir={folder}/pki", f"--root-dir={folder}/root",
            f"--hostname-override={node}",
        ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return folder / "kubeconfig.json"

    yield begin
    for process in running:
        process.kill()
        process.wait()


def token_for(here: RealWorld, node: str) -> BootstrapToken:
    here.bind_bootstrappers()
    token = here.client.create_token(node, datetime.now(UTC) + timedelta(minutes=5))
    here.until_known(token)
    return token


def test_a_kubelet_gets_its_certificate_and_nothing_more(here: RealWorld, start: Start) -> None:
    token = token_for(here, "shared-1")
    path = start("shared-1", token)
    here.until(lambda: bool(here.client.signing_requests()))
    (asked,) = here.client.signing_requests()
    assert (asked.node, asked.signer, asked.requestor) == (
        "shared-1",
        KUBELET_SIGNER,
        f"system:bootstrap:{token.id}",
    )
    assert not path.exists()
    here.client.approve(asked, "shared-1", token.id)
    here.until(path.exists)


def test_a_kubelet_that_calls_itself_another_node_is_not_let_in(here: RealWorld, start: Start) -> None:
    token = token_for(here, "shared-1")
    path = start("shared-2", token)
    here.until(lambda: bool(here.client.signing_requests()))
    (asked,) = here.client.signing_requests()
    with pytest.raises(Invalid, match="for the node shared-2, not for shared-1"):
        here.client.approve(asked, "shared-1", token.id)
    assert not path.exists()


def test_a_token_asks_for_certificates_and_for_nothing_else(here: RealWorld) -> None:
    token = token_for(here, "shared-1")
    text = kubeconfig(here.real.port, here.real.authority.pair.certificate, token=token.text)
    with connect(text) as kubelet:
        lacks = {str(right) for right in kubelet.missing_rights()}
    assert {"list nodes", "list pods", "create pods/eviction", "create secrets in kube-system"} <= lacks


@pytest.mark.parametrize(
    ("pem", "usages"),
    [
        pytest.param({"names": ("shared-1",)}, (), id="with another name beside"),
        pytest.param({"groups": ("system:nodes", "system:masters")}, (), id="in another group as well"),
        pytest.param({"groups": ("system:masters",)}, (), id="in another group"),
        pytest.param({}, ("client auth", "server auth", "digital signature"), id="of a server as well"),
    ],
)
def test_what_is_more_than_a_kubelets_is_no_kubelets(
    here: RealWorld, pem: dict[str, tuple[str, ...]], usages: tuple[str, ...]
) -> None:
    """Some the API server itself refuses; of the others, none is read as a kubelet's, and none is approved."""
    token = token_for(here, "shared-1")
    text = kubeconfig(here.real.port, here.real.authority.pair.certificate, token=token.text)
    written = written_for("shared-1", *pem.get("groups", ()), names=pem.get("names", ()))
    try:
        here.post_request("shared-1", text, pem=written, usages=usages)
    except (Forbidden, Invalid):
        return
    (seen,) = here.client.signing_requests()
    assert seen.node == ""
    with pytest.raises(Invalid, match="not for the client certificate of a kubelet"):
        here.client.approve(seen, "shared-1", token.id)
