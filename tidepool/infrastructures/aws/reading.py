"""The options of AWS in a spec, read with all their mistakes at once: what can be known without asking AWS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tidepool.cluster.firewall import ANYWHERE, LoginFirewall
from tidepool.cluster.fleet import Fleet, Infrastructure
from tidepool.cluster.part_reading import read_part
from tidepool.cluster.roles import ROLES
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.aws import guest
from tidepool.infrastructures.aws.groups import pods_at
from tidepool.infrastructures.aws.names import LONGEST_NAME, named
from tidepool.infrastructures.aws.options import NAME, Offering, SiteOptions
from tidepool.infrastructures.reading import has_own_machines, pool_mistakes
from tidepool.infrastructures.registry import ImageNeed

#: A VPC's, by AWS.
_LARGEST_VPC: Final = 16


@dataclass(frozen=True, slots=True)
class Claim:
    """An offering with where it stands, and the fleet that it is for; None of the cluster's own machines."""

    path: str
    offering: Offering
    fleet: Fleet | None
    entry: Infrastructure


@dataclass(frozen=True, slots=True)
class Options:
    """Options of AWS in a spec. ``claims`` are the offerings, the cluster's own machines' first where they are here."""

    path: str
    place: SiteOptions
    claims: tuple[Claim, ...]

    @property
    def has_own(self) -> bool:
        return any(claim.fleet is None for claim in self.claims)

    def zone_of(self, offering: Offering) -> str:
        return offering.zone or self.place.all_zones[0]

    def of_fleet(self, fleet: str, entry: Infrastructure) -> Offering:
        (found,) = (
            claim.offering
            for claim in self.claims
            if claim.fleet and claim.fleet.name == fleet and claim.entry == entry
        )
        return found


def image_needs(spec: ClusterSpec, stack: str) -> Iterator[ImageNeed]:
    """Yield what each image of machines at AWS needs: what reads user data, and where /home is a Lustre its client, which Debian has not."""
    options = read_options(spec, stack)
    of_pools = {
        pool.image_of(role): f"pools[{i}].image" for i, pool in enumerate(spec.pools) for role in ROLES
    }
    for image in spec.images_on(NAME):
        yield ImageNeed(
            image,
            "cloud-init",
            of_pools.get(image, "image"),
            "by which machines of AWS learn what they are for: name one that has it, such as debian-12-cloud, for pools "
            "debian-12-cloud-converged",
        )
        if options.place.home == "lustre":
            yield ImageNeed(
                image,
                "lustre-client-",
                f"{options.path}.home: lustre",
                "of your site's repository, and could not mount it: name another home",
            )


def read_options(spec: ClusterSpec, stack: str) -> Options:
    """The options of AWS in a spec that names it, for the stack of that name.

    Raises:
        SpecError: with every mistake in them.
    """
    mistakes: list[Mistake] = []
    said = spec.site_options(NAME)
    place = read_part(SiteOptions, said.path, said.options, mistakes)
    claims = []
    if place is not None and has_own_machines(spec, NAME):
        own = f"{said.path}.machines"
        claims.append(Claim(own, place.machines, None, spec.controller.infrastructure))
        mistakes += _of_own_machines(own, place.machines)
    for found in spec.entries(NAME):
        path = found.options_path
        if (offering := read_part(Offering, path, found.entry.options, mistakes)) is not None:
            claims.append(Claim(path, offering, found.fleet, found.entry))
    mistakes += _unfit(spec, stack)
    if place is not None:
        mistakes += _site_mistakes(said.path, spec, place)
        mistakes += _of_claims(place, claims)
        mistakes += _of_pools(said.path, spec, place, claims)
    if mistakes:
        raise SpecError(tuple(mistakes))
    assert place is not None
    return Options(said.path, place, tuple(claims))


def _unfit(spec: ClusterSpec, stack: str) -> Iterator[Mistake]:
    yield from pool_mistakes(spec, NAME)
    # Roles are called as what machines boot by, and one as the images that it imports.
    kinds = [found.fleet.boot_name(found.entry) for found in spec.entries(NAME)]
    longest = max((named(stack, kind) for kind in [*kinds, "images"]), key=len)
    if len(longest) > LONGEST_NAME:
        yield Mistake(
            "name",
            None,
            f"IAM knows the role {longest}, which has {len(longest)} letters, by {LONGEST_NAME} at most: give the stack, "
            "the fleet or its offering a shorter name",
        )


def _of_own_machines(path: str, machines: Offering) -> Iterator[Mistake]:
    refused = {
        "zone": (machines.zone, "the cluster's own machines are in the first of the place's zones"),
        "market": (
            machines.market if machines.market == "spot" else None,
            "AWS would take the controller back; leave it out",
        ),
        "placement_group": (machines.placement_group, "it is for nodes; leave it out"),
        "efa": (machines.efa or None, "it is for nodes; leave it out"),
    }
    for key, (value, words) in refused.items():
        if value is not None:
            yield Mistake(f"{path}.{key}", value, words)


def _site_mistakes(path: str, spec: ClusterSpec, place: SiteOptions) -> Iterator[Mistake]:
    zones_path = f"{path}.given.subnets" if place.given else f"{path}.zones"
    if not place.all_zones:
        yield Mistake(
            zones_path, None, f"it is missing: name the zones to be in, such as [{place.region}a], or `given`"
        )
    for i, zone in enumerate(place.all_zones):
        where = f"{zones_path}.{zone}" if place.given else f"{zones_path}[{i}]"
        if not zone.startswith(place.region):
            yield Mistake(where, zone, f"it is no zone of the region {place.region}")
        elif zone in place.all_zones[:i]:
            yield Mistake(where, zone, "it stands here twice")
    if place.given:
        for key, said in (
            ("zones", bool(place.zones)),
            ("outside", place.outside),
            ("transit_gateway", place.transit_gateway is not None),
            ("cidr", "cidr" in place.model_fields_set),
        ):
            if said:
                yield Mistake(
                    f"{path}.{key}", None, "it is of a VPC of the stack's own; leave it out, or `given`"
                )
    else:
        yield from _of_own_vpc(path, spec, place)
        yield from _of_firewall(path, spec, place)
    if place.home not in ("efs", "lustre") and not place.given:
        yield Mistake(
            f"{path}.home",
            place.home,
            "nothing leads from a VPC of the stack's own to a file server; write efs or lustre, or `given`",
        )
    if place.home != "lustre" and "lustre" in place.model_fields_set:
        yield Mistake(f"{path}.lustre", None, "/home is no Lustre; write home: lustre, or leave it out")


def _of_own_vpc(path: str, spec: ClusterSpec, place: SiteOptions) -> Iterator[Mistake]:
    if place.cidr.overlaps(spec.network):
        yield Mistake(
            f"{path}.cidr",
            str(place.cidr),
            f"it overlaps the cluster's network {spec.network}, whose addresses are routes within the VPC and lead anywhere in "
            "it: write another",
        )
    if not _LARGEST_VPC <= place.cidr.prefixlen <= 24:
        yield Mistake(f"{path}.cidr", str(place.cidr), "a VPC of the stack's own has a prefix of /16 to /24")
    led_to = (
        ("administrators", place.administrators, "its administrators"),
        ("kubernetes", place.kubernetes, "that Kubernetes"),
    )
    for key, networks, _ in led_to:
        for i, network in enumerate(networks):
            if network.overlaps(spec.network) or network.overlaps(place.cidr):
                yield Mistake(f"{path}.{key}[{i}]", str(network), "it overlaps the cluster's own network")
    whose = [words for _, networks, words in led_to if networks]
    if whose and place.transit_gateway is None:
        yield Mistake(
            f"{path}.transit_gateway",
            None,
            f"it is missing: nothing leads from a VPC of the stack's own to {' and '.join(whose)}; name one, or `given`",
        )


def _of_firewall(path: str, spec: ClusterSpec, place: SiteOptions) -> Iterator[Mistake]:
    """Find rules that a VPC of the stack's own has no way for, and a way that no rule lets anybody use."""
    logins = spec.firewall.logins if has_own_machines(spec, NAME) else LoginFirewall()
    if logins.ingress and place.transit_gateway is None:
        yield Mistake(
            f"{path}.transit_gateway",
            None,
            "it is missing: nothing leads from those of firewall.logins.ingress to a VPC of the stack's own; name one, or `given`",
        )
    for i, rule in enumerate(logins.ingress):
        if place.outside and ANYWHERE in rule.sources:
            yield Mistake(
                f"firewall.logins.ingress[{i}].from[{rule.sources.index(ANYWHERE)}]",
                str(ANYWHERE),
                f"{path}.outside leads everywhere by its NAT gateway, so nobody who comes by the transit gateway would be answered: "
                "name the networks that come by it",
            )
    own = spec.firewall.controller.egress if has_own_machines(spec, NAME) else ()
    egress = [to for rule in (*logins.egress, *own, *spec.firewall.nodes.egress) for to in rule.to]
    leads = [*place.administrators, *(each for rule in logins.ingress for each in rule.sources)]
    lost = [to for to in egress if not any(to.subnet_of(network) for network in leads)]
    if lost and not place.outside:
        yield Mistake(
            f"{path}.outside",
            False,
            f"nothing leads from a VPC of the stack's own to {lost[0]} of the firewall's egress; write outside: true",
        )
    if place.outside and not egress:
        yield Mistake(
            f"{path}.outside",
            True,
            "no rule lets machines use it; write one, such as firewall: {nodes: {egress: [{to: [0.0.0.0/0]}]}}, or leave it out",
        )


def _of_claims(place: SiteOptions, claims: list[Claim]) -> Iterator[Mistake]:
    groups: dict[str, tuple[str, str]] = {}
    for claim in claims:
        offering = claim.offering
        zone = offering.zone or next(iter(place.all_zones), "")
        if offering.zone is not None and offering.zone not in place.all_zones:
            yield Mistake(
                f"{claim.path}.zone",
                offering.zone,
                f"the place has the zones {', '.join(place.all_zones) or 'none'}; add it there, or take one of them",
            )
        if (group := offering.placement_group) is not None:
            path, other = groups.setdefault(group, (claim.path, zone))
            if other != zone:
                yield Mistake(
                    f"{claim.path}.placement_group",
                    group,
                    f"it is in {zone} here, and in {other} by {path}: machines of a placement group are near each other, in "
                    "one zone; give it another name here, or the same zone",
                )
        over = guest.size(offering.first_boot) - guest.MOST_BYTES
        if over > 0:
            yield Mistake(
                f"{claim.path}.first_boot",
                None,
                f"user data would have {over} bytes more than the {guest.MOST_BYTES} that EC2 takes: put the script into "
                "the image, by a role of its recipe",
            )


def _of_pools(path: str, spec: ClusterSpec, place: SiteOptions, claims: list[Claim]) -> Iterator[Mistake]:
    """Find what machines that serve Kubernetes in turns cannot be, and networks that do not lead to their pods."""
    pods = pods_at(spec)
    has_kubeconfig = spec.kubernetes is not None and spec.kubernetes.kubeconfig is not None
    if place.kubernetes and not (pods and has_kubeconfig):
        said = (
            "no machine here serves a Kubernetes that is there already (kubernetes.kubeconfig); leave it out"
        )
        yield Mistake(f"{path}.kubernetes", None, said)
    if pods is None:
        return
    if has_kubeconfig and not place.kubernetes:
        yield Mistake(
            f"{path}.kubernetes",
            None,
            "it is missing: security groups let machines of pools call no Kubernetes, and be called by none, whose networks are not "
            "known; name those of its API server, its nodes and their pods",
        )
    pools = {pool.name for pool in spec.pools}
    for claim in claims:
        if claim.fleet is not None and claim.fleet.name in pools and claim.offering.market == "spot":
            yield Mistake(
                f"{claim.path}.market",
                "spot",
                "a pool has all of its machines all the time, and AWS would take one back that serves Kubernetes, where nobody would "
                "have its pods go before; leave it out, or have spot machines in a fleet",
            )
    on = spec.controller.runs_on
    if on is not None and on.rpartition("-")[0] in {
        pool.name for pool in spec.pools if spec.pool_infrastructure(pool) == NAME
    }:
        yield Mistake(
            "controller.runs_on",
            on,
            "security groups of AWS lead to slurmctld on the cluster's own machines alone; leave it out, and for a second one write "
            "backup: true",
        )
    others = [("administrators", place.administrators), ("kubernetes", place.kubernetes)]
    if place.given is None:
        others.append(("cidr", (place.cidr,)))
    for key, networks in others:
        for network in networks:
            if network.overlaps(pods):
                yield Mistake(
                    "kubernetes.pod_network",
                    str(pods),
                    f"{network} of {path}.{key} overlaps it, and its addresses are routes to machines; write another",
                )
