"""What each infrastructure finds of itself: that it has what is asked of it, and what it has not, each with the remedy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kubernetes.world import Clock
from tests.infrastructures.aws.regions import FACTS
from tests.infrastructures.aws.specs import spec as on_aws
from tests.infrastructures.kubernetes.specs import spec as on_kubernetes
from tests.infrastructures.libvirt.hosts import host
from tests.infrastructures.libvirt.specs import TWO_HOSTS
from tests.infrastructures.libvirt.specs import spec as on_libvirt
from tests.infrastructures.nomad.fake import FakeNomad, hosts, served
from tests.infrastructures.nomad.specs import spec as on_nomad
from tests.infrastructures.ssh.fake import FakeHosts
from tests.infrastructures.ssh.specs import spec as on_ssh
from tests.simulation.kubernetes.fake import FakeKubernetes
from tidepool.clients.kubernetes.contract import Unreachable
from tidepool.cluster.failures import Permanent
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.aws import preflight as aws
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.kubernetes import preflight as kubernetes
from tidepool.infrastructures.libvirt import preflight as libvirt
from tidepool.infrastructures.libvirt.ask import LibvirtError
from tidepool.infrastructures.nomad import preflight as nomad
from tidepool.infrastructures.nomad.api import Api
from tidepool.infrastructures.registry import BUILT_IN, checks_of, descriptor
from tidepool.infrastructures.ssh import preflight as ssh

NOWHERE = Path("/nowhere")
ROOT = Path(__file__).parents[2]


def told(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(found.what, found.state) for found in findings]


def test_hosts_of_libvirt_are_asked_one_by_one() -> None:
    # Wherever this machine is.
    spec = on_libvirt(hosts=TWO_HOSTS, bridge="br0", administrators=["0.0.0.0/0"])

    def ask(uri: str) -> Any:
        if "beta" in uri:
            raise LibvirtError(f"{uri} cannot be asked: no route; try it by hand: virsh")
        return host()

    found = list(libvirt.checks_of(spec, "one", NOWHERE, ask, tuple))
    assert told(found) == [("host alpha of libvirt", "well"), ("host beta of libvirt", "lacks")]
    assert "no route; try it by hand: virsh" in found[1].detail
    found = list(libvirt.checks_of(spec, "one", NOWHERE, lambda _: host(kvm=False), tuple))
    assert "the host has no kvm; switch virtualization on" in found[0].detail


def test_without_the_tools_no_host_of_libvirt_is_asked() -> None:
    def ask(_: str) -> Any:
        raise AssertionError

    found = list(libvirt.checks_of(on_libvirt(), "one", NOWHERE, ask, lambda: ("virsh is not on PATH",)))
    assert [(each.state, each.detail) for each in found] == [("lacks", "virsh is not on PATH")]


def test_a_region_of_aws_is_asked_for_all_that_it_lacks() -> None:
    spec = on_aws(machines={"instance_type": "c7i.2xlarge"})
    found = list(aws.checks_of(spec, "one", NOWHERE, lambda _: FACTS))
    assert told(found) == [("region eu-central-1 of AWS", "well")]
    (first, *_) = aws.checks_of(spec, "one", NOWHERE, lambda _: replace(FACTS, types={}))
    assert "has no c7i.2xlarge" in first.detail


def test_who_is_nobody_at_aws_is_told_how_to_be_somebody() -> None:
    def ask(_: object) -> Any:
        raise Permanent("the region cannot be asked: Unable to locate credentials; set AWS_PROFILE")

    (found,) = aws.checks_of(on_aws(), "one", NOWHERE, ask)
    assert found.state == "lacks"
    assert "set AWS_PROFILE; try it by hand: aws ec2 describe-vpcs --region eu-central-1" in found.detail


@pytest.mark.parametrize(("count", "state"), [(3, "well"), (1, "lacks")])
def test_nomad_is_asked_for_its_hosts(count: int, state: str) -> None:
    with served(FakeNomad(*hosts(count))) as address:
        (found,) = nomad.checks_of(on_nomad(), "one", NOWHERE, lambda _: Api(address, answer_s=5))
    assert found.state == state
    if state == "lacks":
        assert "hosts.login-1 is beta, and no client has this name; there are alpha" in found.detail


def test_a_nomad_that_does_not_answer_is_told_with_how_to_try_it() -> None:
    (found,) = nomad.checks_of(on_nomad(), "one", NOWHERE, lambda _: Api("http://127.0.0.1:9", answer_s=1))
    assert found.state == "lacks"
    assert "is the agent up, and the address right? try: nomad status -address=" in found.detail


def test_existing_hosts_are_asked_one_by_one(tmp_path: Path) -> None:
    spec = on_ssh()
    addresses = tuple(f"192.0.2.{number}" for number in (1, 2, 3, 4, 11, 12))
    fake = FakeHosts(tmp_path, addresses)
    fake.down.add("192.0.2.12")
    found = list(ssh.checks_of(spec, "one", NOWHERE, fake))
    by_host = {each.what: each for each in found if "nothing answers" in each.detail}
    assert list(by_host) == ["host beta"]
    assert by_host["host beta"].detail.startswith(
        "fleets[0].infrastructures[0].options.hosts: nothing answers"
    )


def test_a_kubernetes_that_does_not_answer_is_told_with_its_key(tmp_path: Path) -> None:
    spec = on_kubernetes(kubeconfig=str(tmp_path / "none"))
    (found,) = kubernetes.checks_of(spec, "one", NOWHERE)
    assert found.state == "lacks"
    assert "No such file" in found.detail
    assert "an administrator of that Kubernetes gives you one" in found.detail
    fake = FakeKubernetes(Clock())
    fake.fail(Unreachable("the API server does not answer"))
    (found,) = kubernetes.checks_of(spec, "one", NOWHERE, lambda *_: fake)
    assert "options.kubeconfig: the API server does not answer" in found.detail


def test_a_kubernetes_that_has_all_is_well() -> None:
    fake = FakeKubernetes(Clock())
    fake.add_node("node-1", cpus=16, memory_mib=65536)
    (found,) = kubernetes.checks_of(on_kubernetes(), "one", NOWHERE, lambda *_: fake)
    assert (found.what, found.state) == ("Kubernetes, namespace physics", "well")


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("libvirt", on_libvirt),
        ("aws", on_aws),
        ("nomad", on_nomad),
        ("kubernetes", on_kubernetes),
        ("ssh", on_ssh),
    ],
)
def test_options_that_cannot_be_are_told_as_a_preview_tells_them(name: str, spec: Callable[..., Any]) -> None:
    with pytest.raises(SpecError, match="no_such_thing = 1: no such key"):
        tuple(checks_of(name, spec(no_such_thing=1), "one", NOWHERE))


def test_each_infrastructure_checks_itself() -> None:
    assert all(descriptor(name).checks for name in BUILT_IN)
    with pytest.raises(Permanent, match="this release does not know it; known are local, "):
        checks_of("openstack", on_libvirt(), "one", NOWHERE)
    # This machine is looked at in any case; of a spec it is asked for its firewall alone.
    assert list(checks_of("local", on_libvirt(), "one", NOWHERE)) == []


def test_looking_at_one_loads_nothing_of_the_others() -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.infrastructures.ssh.specs import spec\n"
        "from tidepool.infrastructures.registry import checks_of\n"
        "list(checks_of('ssh', spec(), 'one', Path('/nowhere')))\n"
        "sys.stdout.write('\\n'.join(sys.modules))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = {*said.stdout.split()}
    assert "tidepool.infrastructures.ssh.preflight" in loaded
    others = {package for name, package in BUILT_IN.items() if name not in ("ssh", "local")}
    assert not loaded & {*others, "boto3", "pulumi", "pulumi_aws"}
