"""Fleets of machines that Cluster API provisions by Metal3: a Machine and a Metal3Machine for each node name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any, ClassVar, Final, Literal, Self, cast

import pulumi
from pulumi import Input, Output, ResourceOptions
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core import v1 as core

from tidepool import resources
from tidepool.cluster.boot import Service
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.cloud_init import Surroundings, seed
from tidepool.infrastructures.container import packed
from tidepool.infrastructures.contract import Boot, File, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.kubernetes import cluster_api
from tidepool.infrastructures.kubernetes.namespace import labels_of
from tidepool.infrastructures.kubernetes.options import ClusterApi, Offering
from tidepool.infrastructures.kubernetes.reading import Options
from tidepool.infrastructures.kubernetes.resources import KubernetesMachine
from tidepool.infrastructures.remote import Ssh

#: Metal3 says at once where no host is free; one that is wiped may be, in minutes.
_ROOM_S: Final = 60
_ADDRESS: Final = "/usr/local/lib/tidepool/own-address"
#: A machine's address follows from its name, and its metadata have it: beside the one of DHCP, by which it was installed.
_ADDRESS_PROGRAM: Final = """\
#!/bin/sh
set -eu
address=$(cloud-init query ds.meta_data.{key})
ip address replace "$address/{prefix}" dev {interface}
"""
#: Hosts are wiped before they are another's.
_DELETE_WITHIN: Final = "60m"


@dataclass(frozen=True)
class ClusterApiMachines:
    """Machines of one fleet, once `for_fleet` said of which."""

    forms: ClassVar[Sequence[str]] = ("disk.qcow2",)

    stack: str
    cluster: str
    options: Options
    api: ClusterApi
    there: ResourceOptions
    ssh: Ssh
    hosts: Mapping[str, IPv4Address]
    prefix: int
    data: CustomResource
    first: Sequence[pulumi.Resource]
    fleet: str = ""
    #: What the fleet's template is called.
    template: str = ""
    offering: Offering = field(default_factory=Offering)
    _templates: dict[str, CustomResource] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: ClusterSpec, stack: str, options: Options, there: ResourceOptions, ssh: Ssh) -> Self:
        api = options.place.cluster_api
        assert api is not None  # options with such a fleet have it
        name = options.namespace
        metal3 = _resource(
            "machines", cluster_api.METAL3_VERSION, "Metal3Cluster", _meta(name, options.namespace, stack),
            cluster_api.metal3_cluster(spec.own_addresses.controller), there,
        )  # fmt: skip
        made = _resource(
            "machines", cluster_api.CORE_VERSION, "Cluster", _meta(name, options.namespace, stack),
            cluster_api.cluster(name), ResourceOptions.merge(there, ResourceOptions(depends_on=[metal3])),
        )  # fmt: skip
        data = _resource(
            "machines", cluster_api.METAL3_VERSION, "Metal3DataTemplate", _meta("machines", options.namespace, stack),
            cluster_api.data_template(name, api),
            # What it says cannot be changed.
            ResourceOptions.merge(there, ResourceOptions(replace_on_changes=["spec"], delete_before_replace=True)),
        )  # fmt: skip
        return cls(
            stack, name, options, api, there, ssh, spec.own_hosts, spec.network.prefixlen, data, (made, data)
        )

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        (entry,) = fleet.infrastructures
        named = fleet.name if entry.offering is None else f"{fleet.name}.{entry.offering}"
        offering = self.options.offerings[fleet.name, entry.key]
        return replace(self, fleet=fleet.name, template=named, offering=offering)

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        """The file for the server that hosts load it from; gives its name and digest."""
        file = resources.ImageFile(f"{name}@{self.forms[0]}", image=digest, form=self.forms[0])
        return Output.all(digest, file.path).apply(lambda known: f"{name}-{known[0]}")

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        """The hosts' own, which is there."""
        return Output.from_input(name)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        """An export, which is there."""
        return Output.from_input(self.options.place.volumes[order.name].nfs or "")

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        """Bootstrap data: what cloud-init does at the first start. Changing it touches no machine that runs."""
        program = _ADDRESS_PROGRAM.format(
            key=cluster_api.ADDRESS_KEY, prefix=self.prefix, interface=self.api.interface
        )
        told = replace(
            boot,
            files=(*boot.files, *self.ssh.files, File(_ADDRESS, program, "0755")),
            services=(Service("own-address", (_ADDRESS,), once=True), *boot.services),
        )
        user_data = seed(told, Surroundings(self.hosts)).apply(lambda known: known.user_data)
        data: Output[dict[str, str]] = Output.secret(
            user_data.apply(lambda text: {"value": packed(text), "format": packed("cloud-config")})
        )
        meta = _meta(
            f"boot-{name}",
            self.options.namespace,
            self.stack,
            labels={cluster_api.CLUSTER_NAME: self.cluster},
        )
        made = core.Secret(
            name,
            metadata=untyped(meta),
            type=cluster_api.SECRET_TYPE,
            data=data,
            opts=self._there(opts, additional_secret_outputs=["data"]),
        )
        return made.id.apply(lambda _: f"boot-{name}")

    def prepare(self, image: Input[str], opts: ResourceOptions | None = None) -> None:
        """The fleet's template: the scaler, who makes the first machine, may make none."""
        self._templates[self.template] = _resource(
            self.template, cluster_api.METAL3_VERSION, "Metal3MachineTemplate",
            _meta(self.template, self.options.namespace, self.stack),
            self._spec(image).apply(lambda known: cluster_api.template(known, self.stack, self.fleet)),
            self._there(opts, depends_on=[self.data]),
        )  # fmt: skip

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        notes = Output.from_input(order.image).apply(
            # Another image is another machine, with all that it is made of.
            lambda image: {
                "tidepool/image": image,
                cluster_api.ADDRESS_NOTE: str(order.address),
                **_UNAWAITED,
            }
        )
        anew = {"replace_on_changes": ["spec", "metadata.annotations"], "delete_before_replace": True}
        cloned = notes.apply(lambda known: {**known, **cluster_api.cloned_from(self.template)})
        host = CustomResource(
            order.name,
            api_version=cluster_api.METAL3_VERSION,
            kind="Metal3Machine",
            metadata=untyped(self._meta(order, cloned)),
            spec=untyped(self._spec(order.image)),
            opts=self._there(opts, depends_on=[self._templates[self.template], *self.first], **anew),
        )
        made = CustomResource(
            order.name,
            api_version=cluster_api.CORE_VERSION,
            kind="Machine",
            metadata=untyped(self._meta(order, notes)),
            spec=untyped(
                Output.from_input(order.boot).apply(
                    lambda boot: cluster_api.machine(self.cluster, order.name, boot)
                )
            ),
            opts=self._there(
                opts, depends_on=[host], custom_timeouts=pulumi.CustomTimeouts(delete=_DELETE_WITHIN), **anew
            ),
        )
        uid = cast(Any, made).metadata.apply(lambda meta: meta["uid"])
        return answering(order, "machines", made, uid, self.ssh, self.options, _ROOM_S, opts)

    def _spec(self, image: Input[str]) -> Output[Mapping[str, Any]]:
        return Output.from_input(image).apply(
            lambda known: cluster_api.metal3_machine(known, "machines", self.offering, self.api)
        )

    def _meta(self, order: MachineOrder, annotations: Output[dict[str, str]]) -> Mapping[str, Any]:
        return {
            "name": order.name,
            "namespace": self.options.namespace,
            "labels": {
                **labels_of(self.stack, self.fleet, order.name, order.address),
                cluster_api.CLUSTER_NAME: self.cluster,
            },
            "annotations": annotations,
        }

    def _there(self, opts: ResourceOptions | None, **more: Any) -> ResourceOptions:
        return ResourceOptions.merge(ResourceOptions.merge(opts, self.there), ResourceOptions(**more))


#: Nobody waits for what controllers make of it: `tidepool:kubernetes:Machine` waits until the machine answers.
_UNAWAITED: Final = {"pulumi.com/skipAwait": "true"}


def _meta(name: str, namespace: str, stack: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace,
        "labels": {"tidepool/stack": stack, **(labels or {})},
        "annotations": dict(_UNAWAITED),
    }


def _resource(
    name: str, version: str, kind: str, meta: Mapping[str, Any], spec: Any, opts: ResourceOptions
) -> CustomResource:
    return CustomResource(name, api_version=version, kind=kind, metadata=untyped(meta), spec=spec, opts=opts)


def answering(
    order: MachineOrder,
    kind: Literal["pods", "machines"],
    made: pulumi.CustomResource,
    uid: Input[str],
    ssh: Ssh,
    options: Options,
    room_s: int,
    opts: ResourceOptions | None,
) -> Machine:
    """Return the machine of an order that ``made`` is, as it is known to Kubernetes by ``uid``; it is there when it answers."""
    answers = KubernetesMachine(
        order.name,
        stack=ssh.stack,
        kubeconfig=options.place.kubeconfig,
        namespace=options.namespace,
        kind=kind,
        machine=order.name,
        object=uid,
        address=str(order.address),
        access=ssh.access.id,
        room_s=room_s,
        opts=opts,
    )
    return Machine(answers, made.id, Output.from_input(str(order.address)), answers.connection)


def untyped(value: object) -> Any:
    """JSON by the API's own names, which the package takes as it takes its own types."""
    return cast(Any, value)
