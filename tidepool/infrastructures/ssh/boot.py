"""A boot as roles of playbooks take it: `services` what always runs on a host, `converged_node` what runs with a role of a pool's.

A host has a name of its own, so whatever runs there knows it by its node's: in a UTS namespace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidepool.cluster.boot import Boot, File, Service
from tidepool.cluster.roles import CONTAINER_IMAGES
from tidepool.images.store import Image
from tidepool.infrastructures.units import files_of_role, role_of, target_of

#: Of a boot, what is the host's own affair: who logs in, and by what.
_HOSTS_OWN_SERVICES: Final = ("node-access", "sshd")
_HOSTS_OWN: Final = ("/etc/pam.d/", "/etc/ssh/", "/root/.ssh/")
_PLACE: Final = ("path", "mode", "owner", "group")
_AS_NODE: Final = 'hostname "$0"; exec "$@"'
_AS_USER: Final = 'hostname "$0"; user=$1; shift; exec setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups "$@"'
#: Packages of Kubernetes' role, which a host gets in the versions that the image has.
KUBERNETES_PACKAGES: Final = ("containerd", "containernetworking-plugins", "runc")


@dataclass(frozen=True, slots=True)
class HostBoot:
    """Variables of the roles, and the bytes of files that they name, by their names in the folder of files."""

    variables: Mapping[str, Any]
    files: Mapping[str, bytes]


def host_boot(boot: Boot[str], node: str) -> HostBoot:
    """Return what a host is told of a boot as the node ``node``. Mounts are not in it: a boot's are of folders of this machine."""
    files = [file for file in boot.files if not file.path.startswith(_HOSTS_OWN)]
    roles = tuple(dict.fromkeys(each.role for each in boot.services if each.role))
    units = _units(boot, node, roles)
    services = [each for each in boot.services if not each.role and each.name not in _HOSTS_OWN_SERVICES]
    variables: dict[str, Any] = {
        "tidepool_services": [
            {
                **_fields(each, "name", "user", "ready", "begins", "once", "stop_timeout_s"),
                "argv": list(each.argv),
            }
            for each in services
        ],
        "tidepool_files": [_file_variable(at, file) for at, file in enumerate(files)],
        "tidepool_folders": [_fields(each, *_PLACE) for each in boot.folders if not role_of(each, boot)],
    }
    if roles:
        variables["tidepool_role_units"] = [
            _file_variable(at, file) for at, file in enumerate(units, len(files))
        ]
        variables["tidepool_role_targets"] = [target_of(role) for role in roles]
    return HostBoot(variables, {str(at): file.data for at, file in enumerate((*files, *units))})


def of_image(image: Image, packages: Sequence[str]) -> Mapping[str, Any]:
    """Return the variables by which a host gets, beside ``packages``, what a machine of the image has for Kubernetes.

    Those are the same versions of packages, and the same bytes of what no package has.
    """
    versions = {package.name: package.version for package in image.packages}
    return {
        "tidepool_daemon_packages": [
            *packages,
            *(f"{name}={versions[name]}" for name in KUBERNETES_PACKAGES),
        ],
        "tidepool_kubelet": str(image.root / "usr/bin/kubelet"),
        "tidepool_containers": f"{image.root}{CONTAINER_IMAGES}",
    }


def _units(boot: Boot[str], node: str, roles: Sequence[str]) -> list[File[str]]:
    """The units of roles; that of no role, `tidepool-prepare`, comes with `services`."""
    named = replace(boot, services=tuple(_as_node(each, node) for each in boot.services), mounts=())
    return [file for role in roles for file in files_of_role(role, named, (), _never, roles)]


def _as_node(service: Service, node: str) -> Service:
    if service.user == "root":
        argv = ("/usr/bin/unshare", "--uts", "/bin/sh", "-ec", _AS_NODE, node, *service.argv)
    else:
        argv = ("/usr/bin/unshare", "--uts", "/bin/sh", "-ec", _AS_USER, node, service.user, *service.argv)
    return replace(service, argv=argv, user="root")


def _never(source: str, target: str, mode: str) -> Sequence[str]:
    raise ValueError(f"volumes of a role are refused before ({source} at {target}, {mode})")


def _file_variable(at: int, file: File[str]) -> Mapping[str, Any]:
    return {**_fields(file, *_PLACE), "src": f"{{{{ tidepool_files_folder }}}}/{at}"}


def _fields(part: object, *names: str) -> dict[str, Any]:
    return {name: getattr(part, name) for name in names}
