"""A machine as a Machine of Cluster API, provisioned by Metal3: what Kubernetes is told, by the names of v1beta2.

There is no MachineDeployment and no MachineSet: those have a count, and choose which of their machines goes. Each node name
has a Machine and a Metal3Machine of its own, made from the template of its fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any, Final

from tidepool.clients.kubernetes.contract import CLUSTER_API
from tidepool.infrastructures.kubernetes.namespace import FLEET_LABEL, METAL3, STACK_LABEL
from tidepool.infrastructures.kubernetes.options import ClusterApi, Offering

CORE_VERSION: Final = f"{CLUSTER_API}/v1beta2"
METAL3_VERSION: Final = f"{METAL3}/v1beta2"
#: By which controllers know whose a Machine is.
CLUSTER_NAME: Final = "cluster.x-k8s.io/cluster-name"
#: What a machine's metadata say of its address.
ADDRESS_KEY: Final = "tidepool_address"
ADDRESS_NOTE: Final = "tidepool/address"
#: A secret of this type is bootstrap data.
SECRET_TYPE: Final = "cluster.x-k8s.io/secret"  # noqa: S105 - a type
#: slurmctld's: these machines have no other control plane.
_PORT: Final = 6817


def cluster(name: str) -> Mapping[str, Any]:
    """Return the spec of a Cluster: it only names what Metal3 knows of it."""
    return {"infrastructureRef": {"apiGroup": METAL3, "kind": "Metal3Cluster", "name": name}}


def metal3_cluster(controller: IPv4Address) -> Mapping[str, Any]:
    """Return the spec of a Metal3Cluster, whose control plane is slurmctld."""
    return {"controlPlaneEndpoint": {"host": str(controller), "port": _PORT}, "cloudProviderEnabled": False}


def data_template(cluster: str, options: ClusterApi) -> Mapping[str, Any]:
    """Return the spec of a Metal3DataTemplate: what each machine is told of itself. It is never changed: another one has another name."""
    return {
        # Metal3 1.13 wants it, and 1.14 has it still.
        "clusterName": cluster,
        "metaData": {
            "objectNames": [
                {"key": key, "object": "machine"} for key in ("name", "local-hostname", "local_hostname")
            ],
            "fromAnnotations": [{"key": ADDRESS_KEY, "object": "machine", "annotation": ADDRESS_NOTE}],
        },
        "networkData": {
            "links": {
                "ethernets": [
                    {
                        "id": options.interface,
                        "type": "phy",
                        "macAddress": {"fromHostInterface": options.interface},
                    }
                ]
            },
            "networks": {"ipv4DHCP": [{"id": "cluster", "link": options.interface}]},
        },
    }


def metal3_machine(image: str, data: str, offering: Offering, options: ClusterApi) -> Mapping[str, Any]:
    """Return the spec of a Metal3Machine, and of its template. ``image`` is a name and a digest: ``debian-12-cloud-0f3a...``."""
    name, _, digest = image.rpartition("-")
    told: dict[str, Any] = {
        "image": {
            "url": options.image_url.format(name=name, digest=digest),
            "checksum": options.checksum_url.format(name=name, digest=digest),
            "checksumType": "sha256",
            "diskFormat": "qcow2",
        },
        "dataTemplate": {"name": data},
        "automatedCleaningMode": options.cleaning,
    }
    if offering.host_selector:
        told["hostSelector"] = {"matchLabels": dict(offering.host_selector)}
    return told


def template(machine: Mapping[str, Any], stack: str, fleet: str) -> Mapping[str, Any]:
    """Return the spec of a Metal3MachineTemplate."""
    return {"template": {"metadata": {"labels": {STACK_LABEL: stack, FLEET_LABEL: fleet}}, "spec": machine}}


def cloned_from(template: str) -> Mapping[str, str]:
    """By which Metal3 knows the template of a Metal3Machine, whose cleaning mode follows it."""
    return {
        "cluster.x-k8s.io/cloned-from-name": template,
        "cluster.x-k8s.io/cloned-from-groupkind": f"Metal3MachineTemplate.{METAL3}",
    }


def machine(cluster: str, name: str, boot: str) -> Mapping[str, Any]:
    """Return the spec of a Machine, whose user data the Secret ``boot`` has. Nobody drains it but Slurm: it is no node of Kubernetes."""
    return {
        "clusterName": cluster,
        "bootstrap": {"dataSecretName": boot},
        "infrastructureRef": {"apiGroup": METAL3, "kind": "Metal3Machine", "name": name},
    }
