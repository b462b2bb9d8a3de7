"""The options of libvirt in a spec, read with all their mistakes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.scaling import Warm
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.infrastructures.libvirt.options import Offering, SiteOptions, write_cpus
from tidepool.infrastructures.libvirt.seat import (
    OwnMachine,
    Seat,
    own_seats,
    seats_on_each_host,
)
from tidepool.infrastructures.reading import Offerings, has_own_machines, read_site, volume_mistakes

_NAME: Final = "libvirt"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of libvirt in a spec: the place; by fleet and key of its infrastructure, the offerings."""

    place: SiteOptions
    offerings: Offerings[Offering]

    def hosts_of(self, offering: Offering) -> tuple[str, ...]:
        """The names of its hosts, in turns of which its machines are."""
        return offering.hosts or tuple(self.place.hosts)


@dataclass(frozen=True, slots=True)
class _Claim:
    """An offering with where it stands, and the machines that it is for: of a fleet those of all its slots.

    For which of them are here is decided later, and a machine's seat follows from its slot. ``shapes`` are theirs, by
    where each stands: of the cluster's ``own`` machines there are several.
    """

    path: str
    offering: Offering
    shapes: Mapping[str, Shape]
    machines: int
    own: tuple[tuple[OwnMachine, Seat | None], ...] = ()


def read_options(spec: ClusterSpec) -> Options:
    """The options of libvirt in a spec, for those of its machines that are libvirt's.

    Raises:
        SpecError: with every mistake in them.
    """
    place, _, offerings = read_site(spec, _NAME, SiteOptions, Offering, _mistakes)
    return Options(place, offerings)


def _mistakes(
    spec: ClusterSpec, path: str, place: SiteOptions, offerings: Offerings[Offering]
) -> Iterator[Mistake]:
    yield from _site_mistakes(spec, path, place)
    yield from _of_suspended(spec, offerings)
    yield from _of_claims(place, tuple(_claims(spec, path, place, offerings)))


def _of_suspended(spec: ClusterSpec, offerings: Offerings[Offering]) -> Iterator[Mistake]:
    """Find machines that are to be suspended with a device of their host's, whose state nobody can save."""
    fleets = {
        policy.fleet for policy in spec.scaling.policies if isinstance(policy, Warm) and policy.suspended
    }
    for found in spec.entries(_NAME):
        offering = offerings.get((found.fleet.name, found.entry.key))
        if offering is None or found.fleet.name not in fleets:
            continue
        for key in ("pci_devices", "sriov_network"):
            if value := getattr(offering, key):
                yield Mistake(
                    f"{found.options_path}.{key}",
                    str(value),
                    f"machines with a device of their host's cannot be suspended, as scaling.policies asks of {found.fleet.name}; "
                    "leave one of them out",
                )


def _site_mistakes(spec: ClusterSpec, path: str, place: SiteOptions) -> Iterator[Mistake]:
    remedy = "libvirt has disks and no folders that machines share; name an NFS export, SERVER:/PATH"
    yield from volume_mistakes(spec, _NAME, path, place.volumes, remedy)
    serves = spec.file_server is not None and has_own_machines(spec, _NAME)
    if serves and place.store is None:
        yield Mistake(
            f"{path}.store",
            None,
            "it is missing: name the disk of the file server, such as /dev/vg0/physics, which has /home for as long as you keep it",
        )
    if place.store is not None and not serves:
        yield Mistake(
            f"{path}.store", place.store, "there is no file_server in the spec; leave one of them out"
        )
    hosts = place.machines.hosts or tuple(place.hosts)
    if len(place.hosts) > 1 and place.bridge is None:
        yield Mistake(
            f"{path}.bridge",
            None,
            "it is missing: a network of libvirt's own is on one host; name a bridge that all hosts have",
        )
    yield from _of_firewall(spec, path, place)
    if place.bridge is None and place.administrators:
        yield Mistake(
            f"{path}.administrators", None, "nothing leads into a network of libvirt's own but from its host; leave it out, or name "
            "a bridge"
        )  # fmt: skip
    if place.bridge is not None and place.outside:
        yield Mistake(f"{path}.outside", True, "the bridge decides what machines reach; leave it out")
    if has_own_machines(spec, _NAME) and spec.controller.backup and place.apart and len(set(hosts)) < 2:
        yield Mistake(
            f"{path}.apart",
            None,
            "the backup controller would be on the controller's host, and go down with it: name two hosts, or write "
            "apart: false",
        )


def _of_firewall(spec: ClusterSpec, path: str, place: SiteOptions) -> Iterator[Mistake]:
    """Find rules that a network of libvirt's own has no way for, and a way that no rule lets anybody use."""
    if place.bridge is not None:
        return
    rules = spec.firewall
    if rules.logins.ingress and has_own_machines(spec, _NAME):
        yield Mistake(
            f"{path}.bridge", None, "it is missing: nothing leads into a network of libvirt's own, as firewall.logins.ingress "
            "asks; name a bridge"
        )  # fmt: skip
    if rules.has_egress and not place.outside:
        yield Mistake(
            f"{path}.outside", False, "nothing leads out of a network of libvirt's own, as the firewall's egress asks; write "
            "outside: true, or name a bridge"
        )  # fmt: skip
    if place.outside and not rules.has_egress:
        yield Mistake(
            f"{path}.outside", True, "no rule lets machines use it; write one, such as firewall: {nodes: {egress: [{to: "
            "[0.0.0.0/0]}]}}, or leave it out"
        )  # fmt: skip


def _claims(
    spec: ClusterSpec, path: str, place: SiteOptions, offerings: Mapping[tuple[str, str], Offering]
) -> Iterator[_Claim]:
    if has_own_machines(spec, _NAME):
        own = own_seats(spec, place.machines, place.machines.hosts or tuple(place.hosts))
        shapes = {machine.shape_path: machine.shape for machine, _ in own}
        yield _Claim(f"{path}.machines", place.machines, shapes, len(own), own)
    for found in spec.entries(_NAME):
        fleet, offering = found.fleet, offerings.get((found.fleet.name, found.entry.key))
        if offering is not None:
            shape_path = f"{found.path.partition('.')[0]}.shape"
            yield _Claim(found.options_path, offering, {shape_path: fleet.shape}, fleet.max_nodes)


def _of_claims(place: SiteOptions, claims: tuple[_Claim, ...]) -> Iterator[Mistake]:
    for claim in claims:
        yield from _of_claim(place, claim)
    yield from _shared(place, claims)


def _of_claim(place: SiteOptions, claim: _Claim) -> Iterator[Mistake]:
    offering = claim.offering
    for i, name in enumerate(offering.hosts or ()):
        if name not in place.hosts:
            yield Mistake(f"{claim.path}.hosts[{i}]", name, f"hosts are {', '.join(place.hosts)}")
        elif offering.hosts is not None and name in offering.hosts[:i]:
            yield Mistake(f"{claim.path}.hosts[{i}]", name, "it stands here twice")
    for shape_path, shape in claim.shapes.items():
        memory = shape.memory_mib + offering.overhead_mib
        if offering.page_kib and memory * 1024 % offering.page_kib:
            page = offering.page_kib // 1024
            yield Mistake(
                f"{claim.path}.hugepages",
                offering.hugepages,
                f"memory ({shape_path}) and overhead are {memory} MiB, which no whole number of such pages is; write "
                f"overhead: {offering.overhead_mib + -memory % page}MiB",
            )
    shape_path, shape = min(claim.shapes.items(), key=lambda each: each[1].cpus)
    small = [i for i, cell in enumerate(offering.cells) if len(cell.cpus) < shape.cpus]
    for i in small:
        yield Mistake(
            f"{claim.path}.cells[{i}].cpus",
            write_cpus(offering.cells[i].cpus),
            f"a machine has {shape.cpus} processors ({shape_path}), and none is over two cells",
        )
    if small:
        return
    if claim.own:
        yield from _of_own(claim)
        return
    hosts = len(offering.hosts or place.hosts)
    wanted = -(-claim.machines // hosts)
    seats = seats_on_each_host(offering, shape.cpus)
    if seats is not None and seats < wanted:
        yield Mistake(
            f"{claim.path}.{'cells' if offering.cells else 'pci_devices'}",
            None,
            f"they are enough for {seats} machines on each host, and there can be {wanted}: name more, or have "
            f"at most {seats * hosts} machines",
        )


def _of_own(claim: _Claim) -> Iterator[Mistake]:
    """The first of the cluster's own machines that its host has no more for."""
    lacking = next((machine.name for machine, seat in claim.own if seat is None), None)
    if lacking is not None:
        names = ", ".join(machine.name for machine, _ in claim.own)
        yield Mistake(
            f"{claim.path}.{'cells' if claim.offering.cells else 'pci_devices'}",
            None,
            f"the cluster's own machines are {names}, and for {lacking} its host has no more: name more, or have fewer "
            "machines",
        )


def _shared(place: SiteOptions, claims: tuple[_Claim, ...]) -> Iterator[Mistake]:
    for at, claim in enumerate(claims):
        for other in claims[:at]:
            if not {*(claim.offering.hosts or place.hosts)} & {*(other.offering.hosts or place.hosts)}:
                continue
            twice = "several fleets have this offering, and need each their own"
            if cpus := _pinned(claim.offering) & _pinned(other.offering):
                path = f"{claim.path}.cells"
                said = twice if other.path == claim.path else f"{other.path}.cells has them on the same host"
                yield Mistake(path, write_cpus(cpus), said)
            if devices := {*claim.offering.pci_devices} & {*other.offering.pci_devices}:
                path = f"{claim.path}.pci_devices"
                said = (
                    twice
                    if other.path == claim.path
                    else f"{other.path}.pci_devices has them on the same host"
                )
                yield Mistake(path, ", ".join(sorted(devices)), said)


def _pinned(offering: Offering) -> set[int]:
    return {cpu for cell in offering.cells for cpu in cell.cpus}
