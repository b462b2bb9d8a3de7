"""Resources of a stack in CloudStack. Each names in ``api`` how it is reached: ``endpoint``, ``project``, ``account``, ``domain``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pulumi import Input

from tidepool.infrastructures.cloudstack.rules import Rule
from tidepool.resources.model import Field, Model, Resource, condition, given


class InCloudStack(Model):
    """Properties that all of them have."""

    api: Field[Mapping[str, str]] = given()
    stack: Field[str] = given(replaces=True)


class CloudStackNetworkModel(InCloudStack):
    """Properties of a `CloudStackNetwork`."""

    zone: Field[str] = given(replaces=True)
    cidr: Field[str] = given(replaces=True)
    offering: Field[str] = given(replaces=True)
    vpc: Field[str] = given(default="", replaces=True)
    rules: Field[Sequence[Rule]] = given(default=())
    #: Whether its rules are those.
    state: Field[str] = condition("as told")


class CloudStackNetwork(Resource, CloudStackNetworkModel, token="tidepool:cloudstack:Network"):
    """An isolated network with its virtual router, or a tier of a VPC; what leaves it, its rules say."""


class CloudStackTemplateModel(InCloudStack):
    """Properties of a `CloudStackTemplate`."""

    zone: Field[str] = given(replaces=True)
    #: With the digest of the image, so that another image is another template.
    name: Field[str, Input[str]] = given(replaces=True)
    #: Where CloudStack finds it; empty: it is there already, and stays.
    url: Field[str, Input[str]] = given(default="", replaces=True)
    #: The same file on this machine, by whose digest CloudStack's is checked.
    path: Field[str, Input[str]] = given(default="")
    hypervisor: Field[str] = given(replaces=True)
    os_type: Field[str] = given(replaces=True)


class CloudStackTemplate(
    Resource, CloudStackTemplateModel, token="tidepool:cloudstack:Template", delete_first=False
):
    """An image, registered by its URL."""


class CloudStackServiceOfferingModel(InCloudStack):
    """Properties of a `CloudStackServiceOffering`."""

    #: One that is there; empty: any that fits, or with ``make`` one of the stack's own.
    name: Field[str] = given(default="", replaces=True)
    cpus: Field[int] = given(replaces=True, least=1)
    memory_mib: Field[int] = given(replaces=True, least=1)
    details: Field[Mapping[str, str]] = given(default={}, replaces=True)
    host_tags: Field[Sequence[str]] = given(default=(), replaces=True)
    make: Field[bool] = given(default=False, replaces=True)
    cpu_mhz: Field[int] = given(default=0, replaces=True)


class CloudStackServiceOffering(
    Resource,
    CloudStackServiceOfferingModel,
    token="tidepool:cloudstack:ServiceOffering",
    delete_first=False,
):
    """The service offering of machines of one shape: found, or made."""


class CloudStackAffinityGroupModel(InCloudStack):
    """Properties of a `CloudStackAffinityGroup`."""

    name: Field[str] = given(replaces=True)
    type: Field[str] = given(replaces=True)


class CloudStackAffinityGroup(
    Resource, CloudStackAffinityGroupModel, token="tidepool:cloudstack:AffinityGroup"
):
    """Machines that are to be on one host, or on different ones."""


class CloudStackUserDataModel(InCloudStack):
    """Properties of a `CloudStackUserData`."""

    boot: Field[str] = given(replaces=True)
    #: What cloud-init is told; it holds keys.
    content: Field[str, Input[str]] = given(secret=True)


class CloudStackUserData(Resource, CloudStackUserDataModel, token="tidepool:cloudstack:UserData"):
    """User data of machines of one boot. Another content is told to those that run already, for when they boot the next time."""


class CloudStackVolumeModel(InCloudStack):
    """Properties of a `CloudStackVolume`."""

    zone: Field[str] = given(replaces=True)
    name: Field[str] = given(replaces=True)
    size_gib: Field[int] = given(least=1)
    #: The disk offering, for one that is made.
    offering: Field[str] = given()


class CloudStackVolume(Resource, CloudStackVolumeModel, token="tidepool:cloudstack:Volume"):
    """A volume of data. It outlives the stack: the next one of its name has it."""


class CloudStackMachineModel(InCloudStack):
    """Properties of a `CloudStackMachine`."""

    zone: Field[str] = given(replaces=True)
    machine: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    network: Field[str, Input[str]] = given(replaces=True)
    template: Field[str, Input[str]] = given(replaces=True)
    offering: Field[str, Input[str]] = given(replaces=True)
    boot: Field[str, Input[str]] = given()
    #: For offerings that leave them open.
    cpus: Field[int] = given(replaces=True, least=1)
    memory_mib: Field[int] = given(replaces=True, least=1)
    disk_gib: Field[int] = given(replaces=True)
    affinity_groups: Field[Sequence[str], Sequence[Input[str]]] = given(default=(), replaces=True)
    #: XML that its domain has besides.
    extra_config: Field[str] = given(default="", replaces=True)
    #: A volume of data that is attached to it; empty: none.
    volume: Field[str, Input[str]] = given(default="")
    state: Field[str] = condition("running")


class CloudStackMachine(Resource, CloudStackMachineModel, token="tidepool:cloudstack:Machine"):
    """A VM. Its name and its group, which is the stack's, are in the call that makes it."""


class CloudStackPortForwardingModel(InCloudStack):
    """Properties of a `CloudStackPortForwarding`."""

    network: Field[str, Input[str]] = given(replaces=True)
    machine: Field[str, Input[str]] = given(replaces=True)
    port: Field[int] = given(replaces=True, least=1)
    sources: Field[Sequence[str]] = given()
    state: Field[str] = condition("as told")


class CloudStackPortForwarding(
    Resource, CloudStackPortForwardingModel, token="tidepool:cloudstack:PortForwarding"
):
    """The port of the network's public address that leads to a login machine's sshd, for ``sources`` alone."""
