"""A machine of a pool: sshd always, and what it serves while it has the role; the files that come with each role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pulumi import Input

from tidepool.cluster import kubelet_files
from tidepool.cluster.kubelet_files import PodRoute
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
    ROUTES,
    Role,
)
from tidepool.components.boots.node import node_boot
from tidepool.components.boots.shared import SSHD, Keys
from tidepool.infrastructures.boot import Boot, File, Service

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
    slurmctld: Boot | None = None,
) -> Boot:
    """Run sshd; munged and slurmd while the machine serves Slurm, containerd and the kubelet while it serves Kubernetes.

    No credential of a role is in it: a machine is given them with the role (`role_files`), and loses them with it.

    Args:
        keys: whose public key lets people in.
        home: the volume that is /home.
        controllers: host names of Slurm's controllers, the first in charge.
        pool: the machine's.
        stack: Pulumi's, for the label of that name.
        is_named: slurm.conf has a line for each slot (`node_boot`).
        slurmctld: that of the machine which runs it while it serves Slurm (`slurmctld_boot`).
    """
    slurm = node_boot(keys, home=home, controllers=controllers, shape=pool.shape, is_named=is_named)
    munged, *others = [replace(each, role="slurm") for each in slurm.services if each is not SSHD]
    besides = slurmctld or Boot(())
    return replace(
        slurm,
        # slurmd asks a slurmctld for its files.
        services=(SSHD, munged, *besides.services, *others, *_kubernetes(pool, stack)),
        files=(*keys.people_files, *besides.files),
        folders=(*slurm.folders, *besides.folders),
        mounts=(*slurm.mounts, *besides.mounts),
        containers="kubernetes",
    )


def role_files(
    keys: Keys,
    *,
    authority: Input[str],
    routes: Iterable[PodRoute] = (),
) -> Mapping[Role, Boot]:
    """By role the files that a machine has only while it has that role: boots that run nothing.

    Args:
        keys: with the munge key.
        authority: of the Kubernetes, whose certificates the kubelet believes; PEM.
        routes: to the pods of all machines; a machine is not given that to its own.
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
