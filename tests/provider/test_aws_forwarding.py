"""An interface of a machine that has several is made to forward, and made so again where somebody undid it. moto is the AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.aws.front import Front, client, front
from tests.infrastructures.aws.specs import REGION
from tests.provider.calls import Calls, plainly
from tidepool.cluster.failures import Permanent, Transient


@pytest.fixture
def forwarding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """The kind, which tells moto behind its front."""
    made, _ = front()
    made.forget()
    monkeypatch.setattr("tidepool.infrastructures.aws.session.client", lambda service, _: client(service))
    yield Calls(tmp_path, "tidepool:aws:Forwarding")
    made.forget()


@pytest.fixture
def interface() -> str:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.77.0.0/20")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.1.0/24")["Subnet"]["SubnetId"]
    return str(ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"])


def checks(interface: str) -> Any:
    (found,) = client("ec2").describe_network_interfaces(NetworkInterfaceIds=[interface])["NetworkInterfaces"]
    return found["SourceDestCheck"]


def test_an_interface_takes_what_is_not_to_its_own_address(forwarding: Calls, interface: str) -> None:
    assert checks(interface) is True
    inputs = forwarding.checked({"region": REGION, "interface": interface})
    assert forwarding.create(inputs).resource_id == interface
    assert checks(interface) is False


def test_one_that_somebody_changed_is_drift_and_is_mended(forwarding: Calls, interface: str) -> None:
    inputs = forwarding.checked({"region": REGION, "interface": interface})
    state = plainly(forwarding.create(inputs).properties)
    assert plainly(forwarding.read(interface, state, inputs).properties)["state"] == "forwards"
    client("ec2").modify_network_interface_attribute(
        NetworkInterfaceId=interface, SourceDestCheck={"Value": True}
    )
    seen = plainly(forwarding.read(interface, state, inputs).properties)
    assert seen["state"] == "checked"
    assert forwarding.diff(seen, inputs).replaces in (None, [])
    forwarding.update(interface, seen, inputs)
    assert checks(interface) is False


def test_one_that_is_gone_is_gone_and_is_taken_away_without_a_word(forwarding: Calls, interface: str) -> None:
    inputs = forwarding.checked({"region": REGION, "interface": interface})
    state = plainly(forwarding.create(inputs).properties)
    client("ec2").delete_network_interface(NetworkInterfaceId=interface)
    assert not forwarding.read(interface, state, inputs).resource_id
    forwarding.delete(interface, state)


def test_another_interface_is_another_resource(forwarding: Calls) -> None:
    inputs = {"region": REGION, "interface": "eni-1"}
    assert forwarding.diff(inputs, {**inputs, "interface": "eni-2"}).replaces == ["interface"]


@pytest.mark.parametrize(
    ("code", "kind"), [("UnauthorizedOperation", Permanent), ("RequestLimitExceeded", Transient)]
)
def test_what_aws_refuses_is_told_in_its_words_and_of_its_kind(
    forwarding: Calls, interface: str, code: str, kind: type[Exception]
) -> None:
    made: Front = front()[0]
    made.fail(code)
    with pytest.raises(kind, match=rf"the interface {interface} is not made to forward: .*{code}"):
        forwarding.create({"region": REGION, "interface": interface})
