"""The options of Kubernetes in a spec, read with all their mistakes at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.fleet import Fleet
from tidepool.cluster.part_reading import read_part
from tidepool.cluster.shape import Shape
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.kubernetes.options import LABEL, Offering, SiteOptions
from tidepool.infrastructures.reading import has_own_machines, pool_mistakes, volume_mistakes

NAME: Final = "kubernetes"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of Kubernetes in a spec: the place, and its path; by fleet and key of its infrastructure, the offerings."""

    place: SiteOptions
    path: str
    namespace: str
    offerings: Mapping[tuple[str, str], Offering]

    @property
    def has_machines(self) -> bool:
        return any(offering.kind == "machines" for offering in self.offerings.values())

    @property
    def fleets_of_pods(self) -> tuple[str, ...]:
        pods = (fleet for (fleet, _), offering in self.offerings.items() if offering.kind == "pods")
        return tuple(dict.fromkeys(pods))


def read_options(spec: ClusterSpec) -> Options:
    """The options of Kubernetes in a spec, for those of its machines that are there.

    Raises:
        SpecError: with every mistake in them.
    """
    mistakes: list[Mistake] = []
    said = spec.site_options(NAME)
    place = read_part(SiteOptions, said.path, said.options, mistakes)
    offerings: dict[tuple[str, str], Offering] = {}
    for found in spec.entries(NAME):
        path = found.options_path
        if (offering := read_part(Offering, path, found.entry.options, mistakes)) is not None:
            offerings[found.fleet.name, found.entry.key] = offering
            mistakes += _of_fleet(path, found.fleet, offering)
            if offering.kind == "machines" and spec.firewall.nodes.egress:
                said_by = "hosts that Cluster API provisions are beyond Kubernetes' network policies, and nothing here would hold "
                mistakes.append(
                    Mistake(
                        "firewall.nodes.egress",
                        None,
                        f"{path}.kind is machines: {said_by}them to it; leave it out",
                    )
                )
    namespace = ""
    if place is not None:
        namespace = place.namespace or spec.name
        mistakes += _site_mistakes(spec, place, said.path, namespace)
        # What an offering that could not be read asks for is not known.
        if len(offerings) == len(tuple(spec.entries(NAME))):
            mistakes += _together(place, said.path, tuple(offerings.values()))
    mistakes += _unfit(spec, tuple(offerings.values()))
    if mistakes:
        raise SpecError(tuple(mistakes))
    assert place is not None
    return Options(place, said.path, namespace, offerings)


def _of_fleet(path: str, fleet: Fleet, offering: Offering) -> Iterator[Mistake]:
    if offering.kind == "machines":
        return
    shape = f"{path.partition('.')[0]}.shape"
    for i, gres in enumerate(fleet.shape.gres):
        if resource_of(offering, gres.name, gres.type) is None:
            which = ":".join(filter(None, (gres.name, gres.type)))
            yield Mistake(
                f"{path}.gres.{gres.name}",
                None,
                f"it is missing: {shape}.gres[{i}] is {which}, which is an extended resource of Kubernetes' nodes; name it, "
                f"such as {gres.name}: nvidia.com/gpu",
            )
    kinds = {gres.name for gres in fleet.shape.gres}
    for name, resource in offering.gres.items():
        if name.partition(":")[0] not in kinds:
            yield Mistake(f"{path}.gres.{name}", resource, "the fleet's shape has no such gres; leave it out")


def resource_of(offering: Offering, name: str, type: str | None) -> str | None:
    """The extended resource that a gres is: by its name and type, else by its name."""
    return offering.gres.get(f"{name}:{type}") or offering.gres.get(name)


def extended(shape: Shape, offering: Offering) -> Mapping[str, int]:
    """The extended resources of one pod, by name."""
    asked = dict(offering.resources)
    for gres in shape.gres:
        resource = resource_of(offering, gres.name, gres.type)
        if resource is not None:
            asked[resource] = asked.get(resource, 0) + gres.count
    return asked


def _site_mistakes(spec: ClusterSpec, place: SiteOptions, path: str, namespace: str) -> Iterator[Mistake]:
    if not re.match(LABEL, namespace):
        yield Mistake(
            f"{path}.namespace",
            None,
            f"it is missing: the cluster's name, {namespace}, is no namespace's; name one of small letters, digits and '-'",
        )
    if place.machines.kind != "pods":
        yield Mistake(
            f"{path}.machines.kind", place.machines.kind, "the cluster's own machines are pods; leave it out"
        )
    remedy = "pods keep nothing themselves; write an NFS export, SERVER:/PATH, {claim: NAME}, or {storage_class: NAME, size: 100Gi}"
    yield from volume_mistakes(spec, NAME, path, place.volumes, remedy)
    if place.quota and not place.own_namespace:
        yield Mistake(
            f"{path}.quota", None, "with own_namespace: false it is the administrator's; leave it out"
        )


def _together(place: SiteOptions, path: str, offerings: tuple[Offering, ...]) -> Iterator[Mistake]:
    has_machines = any(offering.kind == "machines" for offering in offerings)
    if has_machines and place.cluster_api is None:
        yield Mistake(
            f"{path}.cluster_api",
            None,
            "it is missing: a fleet has kind: machines; write image_url, checksum_url and interface",
        )
    if not has_machines and place.cluster_api is not None:
        yield Mistake(f"{path}.cluster_api", None, "no fleet has kind: machines; leave it out")
    home = place.volumes.get("home")
    if has_machines and home is not None and home.nfs is None:
        yield Mistake(
            f"{path}.volumes.home",
            None,
            "a fleet has kind: machines, which know no claims; write an NFS export, SERVER:/PATH",
        )


def _unfit(spec: ClusterSpec, offerings: tuple[Offering, ...]) -> Iterator[Mistake]:
    yield from pool_mistakes(spec, NAME, "pods")
    has_pods = has_own_machines(spec, NAME) or any(offering.kind == "pods" for offering in offerings)
    if has_pods and spec.process_tracking == "cgroup":
        yield Mistake(
            "process_tracking", "cgroup", "pods see their control groups, and change none; write linuxproc"
        )
