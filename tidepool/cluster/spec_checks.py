"""Whether the parts of a spec agree with each other: each check is a question, and its answers are mistakes.

The checks look at a plain mapping, of which other parts may be wrong, so that one look tells of all mistakes: what
is not what it should be is passed over here, as `spec_reading` tells of it already.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, Final, cast

from tidepool.cluster import addresses
from tidepool.cluster.slurm_keys import RELEASES, Release
from tidepool.cluster.slurm_options import Value, check_cgroup_conf, check_partition, check_slurm_conf

#: Slurm's own limit (MAX_SLURM_NODES).
MOST_NODES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something in a spec that cannot be: where (``fleets[0].max_nodes``), what stands there, and what to do.

    ``value`` is None where something is missing.
    """

    path: str
    value: object
    message: str

    def __str__(self) -> str:
        shown = repr(self.value) if isinstance(self.value, str) else str(self.value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return (
            f"{self.path}: {self.message}" if self.value is None else f"{self.path} = {shown}: {self.message}"
        )


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry of a list of the spec: its path, its keys, and its name if it has one."""

    path: str
    keys: Mapping[str, Any]

    @property
    def name(self) -> str | None:
        name = self.keys.get("name")
        return name if isinstance(name, str) else None

    @property
    def subnet(self) -> IPv4Network | None:
        return _as_network(self.keys.get("subnet"))


def disagreements(spec: Mapping[str, Any]) -> list[Mistake]:
    """All that does not agree in ``spec``, a plain mapping or the dump of a `ClusterSpec`; in a fixed order."""
    return [mistake for check in _CHECKS for mistake in check(spec)]


def subnet_suggestion(spec: Mapping[str, Any], slots: object) -> str:
    """A free subnet for a fleet of so many slots, as a remedy in words; empty when none can be told."""
    network = _fit_network(spec)
    if network is None:
        return ""
    wanted = slots if isinstance(slots, int) and 0 < slots < MOST_NODES else 1
    taken = [fleet.subnet for fleet in _listed(spec, "fleets") if fleet.subnet is not None]
    free = addresses.free_subnet(network, taken, wanted)
    return (
        f"{free} is free" if free else f"{network} has no room left for {wanted} slots, take a larger network"
    )


def nearest(word: str, known: list[str]) -> str:
    """The known word that is nearest to ``word``, and what is known, in words."""
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    said = f"did you mean {near[0]}? " if near else ""
    return f"{said}known here: {', '.join(known) or 'none'}"


def _names_twice(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    for kind in ("fleets", "partitions"):
        first: dict[str, str] = {}
        for entry in _listed(spec, kind):
            if entry.name is None:
                continue
            if entry.name in first:
                yield Mistake(
                    f"{entry.path}.name",
                    entry.name,
                    f"{first[entry.name]} has this name already; give each its own",
                )
            first.setdefault(entry.name, entry.path)


def _subnets_outside(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    network = _fit_network(spec)
    if network is None:
        return
    own = addresses.OwnAddresses(network).range
    for fleet in _listed(spec, "fleets"):
        if fleet.subnet is None:
            continue
        if not fleet.subnet.subnet_of(network):
            wrong = f"not within the network {network}"
        elif fleet.subnet.overlaps(own):
            wrong = f"overlaps {own}, where the cluster's own machines are"
        else:
            continue
        remedy = subnet_suggestion(spec, fleet.keys.get("max_nodes"))
        yield Mistake(f"{fleet.path}.subnet", str(fleet.subnet), f"{wrong}; {remedy}")


def _subnets_overlapping(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = [fleet for fleet in _listed(spec, "fleets") if fleet.subnet is not None]
    subnets = [fleet.subnet for fleet in fleets if fleet.subnet is not None]
    told = set()
    remedies: dict[str, str] = {}
    for i, j in addresses.overlapping(subnets):
        # One neighbour is enough to know of; the remedy is the same for all.
        if j not in told:
            told.add(j)
            slots = fleets[j].keys.get("max_nodes")
            if str(slots) not in remedies:
                remedies[str(slots)] = subnet_suggestion(spec, slots)
            wrong = f"overlaps {subnets[i]} of {fleets[i].path} ({fleets[i].name})"
            yield Mistake(f"{fleets[j].path}.subnet", str(subnets[j]), f"{wrong}; {remedies[str(slots)]}")


def _features_that_are_fleets(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = _listed(spec, "fleets")
    names = {fleet.name for fleet in fleets}
    for fleet in fleets:
        for i, feature in _numbered(fleet.keys.get("features")):
            if feature in names:
                yield Mistake(
                    f"{fleet.path}.features[{i}]",
                    feature,
                    "this is a fleet's name, which is a feature of that fleet's nodes alone; take another word",
                )


def _fleets_unknown(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = spec.get("fleets", ())
    names = [fleet.name for fleet in _listed(spec, "fleets")]
    known = list(dict.fromkeys(name for name in names if name is not None))
    if not isinstance(fleets, list | tuple) or len(names) < len(fleets) or None in names:
        return  # which fleets there are is not known
    for partition in _listed(spec, "partitions"):
        seen = set()
        for i, name in _numbered(partition.keys.get("fleets")):
            if isinstance(name, str) and name not in known:
                yield Mistake(
                    f"{partition.path}.fleets[{i}]", name, f"there is no such fleet; {nearest(name, known)}"
                )
            elif name in seen:
                yield Mistake(
                    f"{partition.path}.fleets[{i}]", name, "this fleet is named twice; leave one out"
                )
            seen.add(name)


def _defaults(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    defaults = [
        partition for partition in _listed(spec, "partitions") if partition.keys.get("default") is True
    ]
    for partition in defaults[1:]:
        yield Mistake(
            f"{partition.path}.default",
            True,
            f"{defaults[0].path} ({defaults[0].name}) is the default already; one partition can be it",
        )


def _too_many_nodes(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = _listed(spec, "fleets")
    slots = _total(fleets, "max_nodes")
    if slots > MOST_NODES:
        yield Mistake(
            "fleets",
            None,
            f"their max_nodes sum up to {slots}, and Slurm has room for {MOST_NODES}; lower them",
        )
    limits = spec.get("limits")
    most = limits.get("max_nodes") if isinstance(limits, Mapping) else None
    least = _total(fleets, "min_nodes")
    if isinstance(most, int) and most < least:
        yield Mistake(
            "limits.max_nodes",
            most,
            f"less than the min_nodes of all fleets, {least} together; raise it or lower those",
        )


def _power_saving_of_a_tree(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    scaling = spec.get("scaling")
    mode = scaling.get("mode") if isinstance(scaling, Mapping) else None
    if mode == "power_save" and spec.get("topology") == "tree":
        yield Mistake(
            "scaling.mode",
            mode,
            "nodes of a tree stand in slurm.conf, where slurmctld does not bear them to be deleted; with "
            "`topology: tree` only `slots` can be",
        )


def _options(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    version = spec.get("slurm_version", RELEASES[0])
    text = f"{version:.2f}" if isinstance(version, float) else version
    release = cast(Release, text if text in RELEASES else RELEASES[0])
    places: list[tuple[str, object, Callable[[Release, str, Value], None]]] = [
        ("slurm_conf", spec.get("slurm_conf"), check_slurm_conf),
        ("cgroup_conf", spec.get("cgroup_conf"), check_cgroup_conf),
    ]
    places += [
        (f"{partition.path}.options", partition.keys.get("options"), check_partition)
        for partition in _listed(spec, "partitions")
    ]
    for path, options, check in places:
        if not isinstance(options, Mapping):
            continue
        first: dict[str, str] = {}
        for key, value in options.items():
            if not isinstance(key, str) or not isinstance(value, str | int | float):
                continue
            if key.lower() in first:
                yield Mistake(
                    f"{path}.{key}", value, f"Slurm does not tell it from {first[key.lower()]}; leave one out"
                )
                continue
            first[key.lower()] = key
            try:
                check(release, key, value)
            except ValueError as error:
                yield Mistake(f"{path}.{key}", value, str(error))


def _policies(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = {fleet.name: fleet.keys.get("max_nodes") for fleet in _listed(spec, "fleets")}
    known = [name for name in fleets if name is not None]
    queue = ""
    capped: dict[object, str] = {}
    for policy in _policies_listed(spec):
        if policy.name in ("queue", "backlog"):
            if queue:
                yield Mistake(
                    f"{policy.path}.name", policy.name, f"{queue} is one already; leave one of them out"
                )
            queue = queue or f"{policy.path} ({policy.name})"
        if policy.name == "account":
            account = policy.keys.get("account")
            if isinstance(account, str) and account in capped:
                yield Mistake(
                    f"{policy.path}.account", account, f"{capped[account]} caps it already; leave one out"
                )
            elif isinstance(account, str):
                capped[account] = policy.path
        fleet, nodes = policy.keys.get("fleet"), policy.keys.get("nodes")
        if not isinstance(fleet, str) or policy.name not in ("warm", "schedule"):
            continue
        most = fleets.get(fleet)
        if fleet not in fleets:
            yield Mistake(f"{policy.path}.fleet", fleet, f"there is no such fleet; {nearest(fleet, known)}")
        elif isinstance(most, int) and isinstance(nodes, int) and nodes > most:
            yield Mistake(
                f"{policy.path}.nodes",
                nodes,
                f"more than max_nodes of {fleet}, which is {most}; lower it or raise that",
            )


def _policies_listed(spec: Mapping[str, Any]) -> list[_Listed]:
    """A policy is a mapping, or only its name."""
    scaling = spec.get("scaling")
    policies = scaling.get("policies") if isinstance(scaling, Mapping) else None
    return [
        _Listed(f"scaling.policies[{i}]", {"name": each} if isinstance(each, str) else each)
        for i, each in _numbered(policies)
        if isinstance(each, str | Mapping)
    ]


_CHECKS: Final[tuple[Callable[[Mapping[str, Any]], Iterator[Mistake]], ...]] = (
    _names_twice,
    _subnets_outside,
    _subnets_overlapping,
    _features_that_are_fleets,
    _fleets_unknown,
    _defaults,
    _too_many_nodes,
    _power_saving_of_a_tree,
    _policies,
    _options,
)


def _listed(spec: Mapping[str, Any], kind: str) -> list[_Listed]:
    return [
        _Listed(f"{kind}[{i}]", entry) for i, entry in _numbered(spec.get(kind)) if isinstance(entry, Mapping)
    ]


def _numbered(entries: object) -> Iterator[tuple[int, Any]]:
    return iter(enumerate(entries)) if isinstance(entries, list | tuple) else iter(())


def _fit_network(spec: Mapping[str, Any]) -> IPv4Network | None:
    network = _as_network(spec.get("network"))
    return None if network is None or addresses.unfit(network) else network


def _as_network(value: object) -> IPv4Network | None:
    try:
        return IPv4Network(value) if isinstance(value, str | IPv4Network) and "/" in str(value) else None
    except ValueError:
        return None


def _total(fleets: list[_Listed], key: str) -> int:
    return sum(value for fleet in fleets if isinstance(value := fleet.keys.get(key), int))
