"""ConvergedNodePool: machines that are alike, each of which serves Slurm or Kubernetes. A machine and a role for each.

A machine runs sshd always, and what it serves while it has the role; files come and go with the role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.cluster import hostlist, kubelet_files
from tidepool.cluster.boot import Folder, Service
from tidepool.cluster.desired_state import role_set
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.kubelet_files import PodRoute, pod_routes
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.roles import (
    AUTHORITY,
    BOOTSTRAP,
    CONTAINER_IMAGES,
    CONTAINERD_CONFIG,
    CONTAINERD_SOCKET,
    KUBECONFIG,
    KUBELET_CONFIG,
    KUBELET_PKI,
    ROLES,
    ROUTES,
    Role,
)
from tidepool.components.boots import Keys, node_boot
from tidepool.components.locations import Location
from tidepool.components.slurm_controller import SlurmController, known_part
from tidepool.components.ssh_access import NODE_ACCESS, SSHD
from tidepool.infrastructures.contract import Boot, File, MachineOrder, Mount, Prepared, RoutesPods
from tidepool.infrastructures.local.graph import Local

#: What pods can be made of, once: a pool's machines reach no registry. A mark says that one came to its end.
_IMPORT: Final = f"""\
for archive in {CONTAINER_IMAGES}/*.tar; do
    mark=/var/lib/containerd/${{archive##*/}}.imported
    test -e "$archive" && ! test -e "$mark" || continue
    ctr --address {CONTAINERD_SOCKET} --namespace k8s.io images import --no-unpack "$archive"
    touch "$mark"
done
"""
#: One that renews its certificate, and has none yet, does not wait for its first: it asks as nobody meanwhile, and is
#: ready 30 s later. So one that has none does not renew it; and is started again, long before it ends.
_KUBELET: Final = f"""\
test -s {KUBECONFIG} && renews=true || renews=false
exec /usr/bin/kubelet "$@" --rotate-certificates=$renews
"""
_RENEWAL: Final = "sleep 72h; pkill -TERM -x kubelet || true; exec sleep infinity"


def converged_boot(
    keys: Keys,
    *,
    home: Input[str],
    controllers: Sequence[str],
    pool: ConvergedPool,
    stack: str,
    is_named: bool = False,
    confined: bool = False,
    slurmctld: Boot | None = None,
    scratch: Sequence[Mount] = (),
) -> Boot:
    """Run sshd; munged and slurmd while the machine serves Slurm, containerd and the kubelet while it serves Kubernetes.

    No credential of a role is in it: a machine is given them with the role (`role_files`), and loses them with it. All
    is as of `node_boot`, but for ``slurmctld``: that of the machine which runs it while it serves Slurm.
    """
    slurm = node_boot(
        keys,
        home=home,
        controllers=controllers,
        shape=pool.shape,
        is_named=is_named,
        confined=confined,
        scratch=scratch,
    )
    munged, *others = [
        replace(each, role="slurm") for each in slurm.services if each not in (NODE_ACCESS, SSHD)
    ]
    besides = slurmctld or Boot(())
    return replace(
        slurm,
        # slurmd asks a slurmctld for its files.
        services=(NODE_ACCESS, SSHD, munged, *besides.services, *others, *_kubernetes(pool, stack)),
        files=(keys.root_file, *besides.files),
        folders=(*(_of_its_role(folder) for folder in slurm.folders), *besides.folders),
        mounts=(*slurm.mounts, *besides.mounts),
        containers="kubernetes",
    )


def _of_its_role(folder: Folder) -> Folder:
    """Whose a node's folders are, but for root's: users of Slurm's, whom an image for Kubernetes alone does not know."""
    return folder if folder.owner == "root" else replace(folder, role="slurm")


def role_files(
    keys: Keys,
    *,
    authority: Input[str],
    routes: Iterable[PodRoute] = (),
) -> Mapping[Role, Boot]:
    """Return by role the files that a machine has only while it has that role, as boots that run nothing.

    ``authority`` (PEM) is the Kubernetes', ``routes`` lead to the pods of all machines: one is not given that to its own.
    """
    return {
        "slurm": Boot((), files=(keys.munge_file,)),
        "kubernetes": Boot(
            (),
            files=(
                File(AUTHORITY, authority),
                File(KUBELET_CONFIG, kubelet_files.kubelet_config()),
                File(CONTAINERD_CONFIG, kubelet_files.containerd_config()),
                File(ROUTES, kubelet_files.routes(routes)),
            ),
        ),
    }


def _kubernetes(pool: ConvergedPool, stack: str) -> tuple[Service, ...]:
    labels = {**pool.labels, "tidepool/pool": pool.name, "tidepool/stack": stack}
    containerd = ("/usr/bin/containerd", "--config", CONTAINERD_CONFIG, "--log-level", "warn")
    kubelet = (
        *("/bin/sh", "-ec", _KUBELET, "kubelet"),
        f"--config={KUBELET_CONFIG}",
        f"--bootstrap-kubeconfig={BOOTSTRAP}",
        f"--kubeconfig={KUBECONFIG}",
        f"--cert-dir={KUBELET_PKI}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in sorted(labels.items()))}",
    )
    services = (
        Service("routes", ("/sbin/ip", "-batch", ROUTES), once=True),
        Service("containerd", containerd, ready=f"unix:{CONTAINERD_SOCKET}"),
        # It asks for a certificate first, and waits until it is approved: nobody waits for it here.
        Service("kubelet", kubelet),
        Service("images", ("/bin/sh", "-ec", _IMPORT), once=True),
        Service("renewal", ("/bin/sh", "-ec", _RENEWAL)),
    )
    return tuple(replace(each, role="kubernetes") for each in services)


class ReachedKubernetes(Protocol):
    """The Kubernetes that pools serve: a `KubernetesControlPlane`, or a `KubernetesAccess`."""

    access: Output[str]
    """Name of the `Access`."""
    authority_certificate: Output[str]
    """PEM, by which the API server is known."""


class ConvergedNodePool(pulumi.ComponentResource):
    """A pool: its slots, and for each of its machines that machine, and the role that it has.

    A role that changes is an update in place: the machine stays.

    Args:
        name: the pool's, as the controller knows it.
        controller: the cluster's, whose spec has the pool and the Kubernetes that it serves.
        kubernetes: that Kubernetes.
        roles: what each machine is to be, by node name; by default as at the first `up` (`tidepool.cluster.desired_state`).
        serving: a hostlist of those that served Kubernetes last.
        only: those of the machines that are registered, as of a `ComputeFleet`.
        opts: Pulumi's.
    """

    roles: Output[Mapping[str, str]]
    """By role, a hostlist of the machines that have it. One that was not given the role it should have keeps its old one."""

    def __init__(
        self,
        name: str,
        *,
        controller: SlurmController,
        kubernetes: ReachedKubernetes,
        roles: Mapping[str, Role] | None = None,
        serving: str = "",
        only: HostSet | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Register it.

        Raises:
            pulumi.RunError: the controller does not know the pool; says the remedy.
        """
        spec = controller.spec
        pool = known_part("ConvergedNodePool", spec, "pool", spec.pools, name)
        super().__init__(
            "tidepool:components:ConvergedNodePool", name, None, controller.locations.options(opts)
        )
        mine = pulumi.ResourceOptions(parent=self)
        roles = role_set(pool) if roles is None else roles
        fleet = spec.pool_fleet(pool)
        location = controller.locations.by_name[spec.pool_infrastructure(pool)]
        infrastructure, image = location.infrastructure.for_fleet(fleet), location.images[str(fleet.image)]
        role_images = {role: location.images[name] for role, name in pool.role_images.items()}
        if isinstance(infrastructure, Prepared):
            infrastructure.prepare(image, mine)
        boot = infrastructure.boot(pool.name, _boot(pool, controller, location), mine)
        machine_boots = {
            node: infrastructure.boot(
                f"{pool.name}-controller", _boot(pool, controller, location, slurmctld), mine
            )
            for node, slurmctld in controller.pool_controllers.items()
            if node in roles
        }
        routes = () if spec.kubernetes is None else pod_routes(spec.kubernetes.pod_network, spec.pools)
        files = role_files(
            controller.keys,
            authority=kubernetes.authority_certificate,
            routes=() if isinstance(infrastructure, RoutesPods) else routes,
        )
        # Whatever its machines are: who converts them brings these.
        kept = Local(controller.locations.stack)
        boots: dict[str, Output[str]] = {
            role: kept.boot(f"{pool.name}-{role}", files[role], mine) for role in ROLES
        }
        pods = {route.node: route.subnet for route in routes}
        # Power saving would ask for a machine that serves Kubernetes: in each mode, slots are FUTURE.
        slots = controller.register_slots(pool, pool.slots(), "FUTURE", self)
        # As of fleets: a slurmd that registers before its slot is there makes a node of its own.
        beside = pulumi.ResourceOptions(parent=self, depends_on=[slots], replace_with=[slots])
        served = HostSet(serving)
        were: dict[str, Role] = {node: "kubernetes" if node in served else "slurm" for node in roles}
        found: dict[str, Input[Role]] = {**were}
        for slot in pool.slots():
            node = slot.node_name
            if only is not None and node not in only:
                continue
            order = MachineOrder(
                node,
                location.network,
                slot.address,
                pool.shape,
                image,
                machine_boots.get(node, boot),
                role_images=role_images,
                pods=pods[node],
            )
            machine = infrastructure.machine(order, beside)
            role = resources.Role(
                node,
                node=node,
                pool=pool.name,
                role=roles[node],
                machine=machine.connection,
                imaging=machine.imaging,
                controller=controller.connection,
                access=kubernetes.access,
                boots=boots,
                pod_subnet=str(pods[node]),
                labels=dict(pool.labels) or None,
                deadline_s=pool.deadline_s,
                at_deadline=pool.at_deadline,
                slots=slots.id,
                slurmctld=controller.configuration.digest if node in machine_boots else None,
                opts=mine,
            )
            found[node] = role.role.recover(_keeping(were[node]))
        self.roles = Output.all(**found).apply(_by_role)
        self.register_outputs({"roles": self.roles})


def _boot(
    pool: ConvergedPool, controller: SlurmController, location: Location, slurmctld: Boot | None = None
) -> Boot:
    return converged_boot(
        controller.keys,
        home=controller.home if location.home is None else location.home,
        controllers=controller.hosts,
        pool=pool,
        stack=controller.locations.stack,
        is_named=controller.names_slots,
        confined=controller.spec.confines_jobs,
        slurmctld=slurmctld,
        scratch=controller.scratch if location.scratch is None else location.scratch,
    )


def _keeping(was: Role) -> Callable[[Exception], Role]:
    """Return what counts where a role could not be changed."""
    return lambda _failure: was


def _by_role(found: Mapping[str, Role]) -> Mapping[str, str]:
    return {str(role): hostlist.fold(node for node, its in found.items() if its == role) for role in ROLES}
