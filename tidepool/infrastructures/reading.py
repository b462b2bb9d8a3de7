"""Options of infrastructures in a spec: what is the same in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address

from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake


def has_own_machines(spec: ClusterSpec, infrastructure: str) -> bool:
    """Return whether the cluster's own machines are there, and not its nodes alone."""
    return spec.controller.infrastructure.name == infrastructure


def pool_mistakes(spec: ClusterSpec, infrastructure: str, machines: str) -> Iterator[Mistake]:
    """Yield a mistake for pools of a cluster whose own machines are there, where ``machines`` take no roles."""
    if spec.pools and has_own_machines(spec, infrastructure):
        yield Mistake("pools", None, f"{machines} take no roles in this release; leave the pools out")


def volume_mistakes(
    spec: ClusterSpec, infrastructure: str, path: str, volumes: Mapping[str, object], remedy: str
) -> Iterator[Mistake]:
    """Yield the volumes that machines there share and the site's options lack, and those that nobody mounts.

    ``path`` is where the options stand, ``remedy`` what is to be written of one that is missing.
    """
    if spec.file_server is not None and has_own_machines(spec, infrastructure):
        for name in sorted(volumes):
            yield Mistake(
                f"{path}.volumes.{name}", None, "the cluster's own file server has it; leave it out"
            )
        return
    needed = ["home", *(["scratch"] if spec.scratch else [])]
    if has_own_machines(spec, infrastructure):
        needed += ["slurmctld", *(["database"] if spec.controller.own_accounting else [])]
    for name in needed:
        if name not in volumes:
            yield Mistake(f"{path}.volumes.{name}", None, f"it is missing: {remedy}")
    for name in sorted({*volumes} - {*needed}):
        given = volumes[name]
        yield Mistake(
            f"{path}.volumes.{name}",
            given if isinstance(given, str) else None,
            f"this cluster mounts {', '.join(needed)}; leave it out",
        )


def own_addresses(spec: ClusterSpec) -> tuple[IPv4Address, ...]:
    """Return the addresses of the cluster's own machines, there or not, in the order of their numbers."""
    places = spec.own_addresses
    logins = (places.login(number) for number in range(1, spec.controller.login_machines + 1))
    server = [places.file_server] if spec.file_server else []
    return (places.controller, places.backup_controller, places.accounting, *logins, *server)
