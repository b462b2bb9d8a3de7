"""A Kubernetes as an infrastructure, by the resources of pulumi-kubernetes: machines are pods, or of Cluster API.

A stack has a namespace to itself. In it each kind of machine has a Secret with what it does when it boots, each fleet a
budget that keeps busy nodes from eviction, and each node name a Pod: no controller of Kubernetes' own chooses which of them
goes. Fleets of machines are in `cluster_api_graph`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
from pulumi import Input, Output, ResourceOptions
from pulumi_kubernetes import apiextensions
from pulumi_kubernetes.core import v1 as core
from pulumi_kubernetes.networking import v1 as networking
from pulumi_kubernetes.policy import v1 as policies
from pulumi_kubernetes.rbac import v1 as rbac

from tidepool import resources
from tidepool.cluster.fleet import Fleet
from tidepool.cluster.names import BACKUP_CONTROLLER_HOST, CONTROLLER_HOST
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures import container
from tidepool.infrastructures.contract import Boot, Infrastructure, Machine, MachineOrder, VolumeOrder
from tidepool.infrastructures.kubernetes import namespace, pod
from tidepool.infrastructures.kubernetes.cluster_api_graph import ClusterApiMachines, answering, untyped
from tidepool.infrastructures.kubernetes.options import Offering
from tidepool.infrastructures.kubernetes.preflight import architecture, demands
from tidepool.infrastructures.kubernetes.reading import NAME, Options, read_options
from tidepool.infrastructures.reading import has_own_machines
from tidepool.infrastructures.remote import Ssh, ssh
from tidepool.resources.declarations import preflight

_FORM: Final = "oci"
#: How long a pod waits for room, before its demand is another fleet's.
_ROOM_S: Final = 20
_ROOM_OF_AUTOSCALED_S: Final = 420


def make(spec: ClusterSpec, stack: str) -> Infrastructure:
    """The infrastructure of that spec's machines; registers what a stack has in its namespace."""
    options = read_options(spec)
    place = options.place
    built_for = architecture()
    asked = demands(spec, options, stack, built_for)
    uses = asked.uses
    fit = preflight("kubernetes", "kubernetes", options.path, asked)
    # All that is made there waits for what says that it can be.
    provider = kubernetes.Provider(
        "kubernetes",
        kubeconfig=place.kubeconfig,
        namespace=options.namespace,
        enable_server_side_apply=True,
        # Else another boot would be another Secret, and with it other pods.
        enable_secret_mutable=True,
        opts=ResourceOptions(depends_on=[fit]),
    )
    there = _Namespace(options.namespace, stack, provider, _namespace(options, stack, provider, uses))
    # No pod runs before it is known who reaches it.
    room = replace(there, first=(*there.first, *_policies(there, spec, options)))
    keys = ssh(spec, stack)
    machines = (
        ClusterApiMachines.of(spec, stack, options, room.options(), keys) if options.has_machines else None
    )
    return Kubernetes(
        stack,
        options,
        room,
        keys,
        # Hardly anything of a pod can be changed: were they those that are there, one more would end all pods, and their jobs.
        spec.possible_own_hosts,
        built_for,
        place.machines,
        "pods" in uses,
        machines=machines,
    )


@dataclass(frozen=True)
class _Namespace:
    """The namespace of all objects: what is made there goes by ``provider``, after ``first``."""

    name: str
    stack: str
    provider: kubernetes.Provider
    first: tuple[pulumi.Resource, ...]

    def options(self, given: ResourceOptions | None = None, **more: Any) -> ResourceOptions:
        mine = ResourceOptions(provider=self.provider, depends_on=list(self.first), **more)
        return ResourceOptions.merge(given, mine)

    def meta(self, name: str, **more: Any) -> Any:
        """Return the metadata of an object; the namespace is said, for two clusters of one program may have two."""
        labels = {"tidepool/stack": self.stack, **more.pop("labels", {})}
        return {"name": name, "namespace": self.name, "labels": labels, **more}


def _namespace(
    options: Options, stack: str, provider: kubernetes.Provider, uses: Sequence[str]
) -> tuple[pulumi.Resource, ...]:
    """The namespace, what a department may have at most in it, and what the scaler may do there."""
    if not options.place.own_namespace:
        return ()
    by = ResourceOptions(provider=provider)
    made = core.Namespace(
        "kubernetes",
        metadata=untyped({"name": options.namespace, "labels": namespace.namespace_labels(stack)}),
        opts=by,
    )
    there = _Namespace(options.namespace, stack, provider, (made,))
    if options.place.quota:
        hard = dict(options.place.quota)
        core.ResourceQuota(
            "kubernetes", metadata=there.meta("stack"), spec={"hard": hard}, opts=there.options()
        )
    table = namespace.scaler_table(pods="pods" in uses, machines="machines" in uses)
    role = rbac.Role(
        "scaler",
        metadata=there.meta("scaler"),
        rules=untyped(namespace.role_rules(table)),
        opts=there.options(),
    )
    rbac.RoleBinding(
        "scaler",
        metadata=there.meta("scaler"),
        role_ref={"api_group": namespace.RBAC, "kind": "Role", "name": "scaler"},
        subjects=[{"api_group": namespace.RBAC, "kind": "User", "name": options.place.scaler}],
        # What a binding refers to cannot be changed.
        opts=there.options(ResourceOptions(depends_on=[role]), delete_before_replace=True),
    )
    return (made,)


def _policies(there: _Namespace, spec: ClusterSpec, options: Options) -> tuple[pulumi.Resource, ...]:
    """Register the rules of the namespace: who reaches pods, under which names they are found, what keeps them; and that they may nothing in Kubernetes."""
    has_own = has_own_machines(spec, NAME)
    if not (options.fleets_of_pods or has_own):
        return ()
    place = options.place
    reach = {
        "machines": namespace.network_policy(there.stack, spec.network, place.reached_from),
        **namespace.firewall_policies(
            there.stack,
            spec.firewall,
            tuple(spec.login_hosts) if has_own else (),
            (CONTROLLER_HOST, BACKUP_CONTROLLER_HOST) if has_own else (),
        ),
    }
    kept = {f"busy-{fleet}": fleet for fleet in options.fleets_of_pods} | ({"own": None} if has_own else {})
    return (
        *(
            networking.NetworkPolicy(
                name, metadata=there.meta(name), spec=untyped(policy), opts=there.options()
            )
            for name, policy in reach.items()
        ),
        core.Service(
            "machines",
            metadata=there.meta(pod.SERVICE, annotations={"pulumi.com/skipAwait": "true"}),
            spec=untyped(namespace.service(there.stack)),
            opts=there.options(),
        ),
        core.ServiceAccount(
            "machine",
            metadata=there.meta(pod.ACCOUNT),
            automount_service_account_token=False,
            opts=there.options(),
        ),
        *(
            policies.PodDisruptionBudget(
                name,
                metadata=there.meta(name),
                spec=untyped(namespace.budget(there.stack, fleet)),
                opts=there.options(),
            )
            for name, fleet in kept.items()
        ),
    )


@dataclass(frozen=True)
class Kubernetes:
    """Machines of a Kubernetes, of one offering. ``fleet`` is empty for the cluster's own."""

    stack: str
    options: Options
    room: _Namespace
    ssh: Ssh
    hosts: Mapping[str, IPv4Address]
    architecture: str
    offering: Offering
    has_pods: bool
    fleet: str = ""
    machines: ClusterApiMachines | None = None

    @property
    def forms(self) -> Sequence[str]:
        of_pods = (_FORM,) if self.has_pods else ()
        return (*of_pods, *(ClusterApiMachines.forms if self.machines else ()))

    def for_fleet(self, fleet: Fleet) -> Infrastructure:
        offering = self.options.offerings[fleet.name, fleet.infrastructures[0].key]
        if offering.kind == "machines":
            assert self.machines is not None  # options with such a fleet have it
            return self.machines.for_fleet(fleet)
        return replace(self, offering=offering, fleet=fleet.name)

    def image(self, name: str, digest: Input[str]) -> Output[str]:
        """Return the image that nodes pull, or hosts load; the file for a registry is written first.

        It is a name and a digest, ``debian-12-0f3a...``: pods and machines have each their own way from there.
        """
        files = [resources.ImageFile(f"{name}@{form}", image=digest, form=form) for form in self.forms]
        return Output.all(digest, *(file.path for file in files)).apply(lambda known: f"{name}-{known[0]}")

    def network(self, name: str, cidr: IPv4Network) -> Output[str]:
        named = f"{name}-{cidr.prefixlen}"
        interface = self.options.place.interface
        if interface is None:
            return Output.from_input(named)
        made = apiextensions.CustomResource(
            name,
            api_version="k8s.cni.cncf.io/v1",
            kind="NetworkAttachmentDefinition",
            metadata=self.room.meta(named),
            spec=untyped(namespace.attachment(interface)),
            opts=self.room.options(),
        )
        return made.id.apply(lambda _: named)

    def volume(self, order: VolumeOrder, opts: ResourceOptions | None = None) -> Output[str]:
        volume = self.options.place.volumes[order.name]
        if volume.nfs is not None:
            return Output.from_input(volume.nfs)
        if volume.claim is not None:
            return Output.from_input(f"claim:{volume.claim}")
        claim = core.PersistentVolumeClaim(
            order.name,
            metadata=self.room.meta(order.name, annotations={"pulumi.com/skipAwait": "true"}),
            spec={
                # Machines of several nodes have it at once.
                "access_modes": ["ReadWriteMany"],
                "storage_class_name": volume.storage_class,
                "resources": {"requests": {"storage": volume.size or ""}},
            },
            opts=self.room.options(opts, retain_on_delete=order.retain),
        )
        return claim.id.apply(lambda _: f"claim:{order.name}")

    def boot(self, name: str, boot: Boot, opts: ResourceOptions | None = None) -> Output[str]:
        """A Secret; gives its name and what is mounted, which the pod itself has to say."""
        told = replace(boot, files=(*boot.files, *self.ssh.files))
        program = container.start(told, pod.BOOT_FOLDER)
        data: Output[dict[str, str]] = Output.secret(
            container.files(told).apply(lambda files: {pod.START: container.packed(program), **files})
        )
        made = core.Secret(
            name,
            metadata=self.room.meta(f"boot-{name}"),
            data=data,
            opts=self.room.options(opts, additional_secret_outputs=["data"]),
        )
        mounts = [(mount.target, mount.read_only) for mount in boot.mounts]
        return Output.all(made.id, *(mount.source for mount in boot.mounts)).apply(
            lambda known: json.dumps(
                {
                    "secret": f"boot-{name}",
                    "mounts": [[source, *how] for source, how in zip(known[1:], mounts, strict=True)],
                }
            )
        )

    def machine(self, order: MachineOrder, opts: ResourceOptions | None = None) -> Machine:
        place = self.options.place
        known = Output.all(network=order.network, image=order.image, boot=order.boot).apply(
            lambda known: self._ordered(order, known["network"], known["image"], known["boot"])
        )
        made = core.Pod(
            order.name,
            metadata=untyped(known.apply(lambda ordered: pod.metadata(ordered, place))),
            spec=untyped(known.apply(lambda ordered: pod.spec(ordered, self.offering, place))),
            # A pod has the name of its node, and hardly anything of one can be changed.
            opts=self.room.options(
                opts,
                delete_before_replace=True,
                replace_on_changes=["spec"],
                ignore_changes=list(pod.SINCE_DELETION_WAITS),
            ),
        )
        room_s = _ROOM_OF_AUTOSCALED_S if self.offering.autoscaled else _ROOM_S
        return answering(
            order, "pods", made, untyped(made.metadata.uid), self.ssh, self.options, room_s, opts
        )

    def _ordered(self, order: MachineOrder, network: str, image: str, boot: str) -> pod.PodOrder:
        place, told = self.options.place, json.loads(boot)
        name, _, digest = image.rpartition("-")
        return pod.PodOrder(
            stack=self.stack,
            fleet=self.fleet,
            name=order.name,
            address=order.address,
            mac=order.mac,
            shape=order.shape,
            # As a container image is called that Tidepool writes.
            image=f"{place.images}/{name}:{digest[:12]}",
            boot=told["secret"],
            mounts=tuple(pod.Mounted(*mount) for mount in told["mounts"]),
            hosts=self.hosts,
            namespace=self.room.name,
            network=network,
            architecture=self.architecture,
        )
