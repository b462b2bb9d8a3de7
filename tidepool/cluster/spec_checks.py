"""Checks that the parts of a spec agree with each other: each check is a question, and its answers are mistakes.

The checks look at a plain mapping, of which other parts may be wrong, so that one look tells of all mistakes: what
is not what it should be is passed over here, as `spec_reading` tells of it already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from tidepool.cluster import account_checks, accounting, firewall_checks, offerings, user_checks
from tidepool.cluster.files import file_mistakes
from tidepool.cluster.network_checks import kubernetes_networks, subnets_outside, subnets_overlapping
from tidepool.cluster.offering_checks import offering_mistakes
from tidepool.cluster.roles import ROLES
from tidepool.cluster.slurm_options import Value, check_cgroup_conf, check_partition, check_slurm_conf
from tidepool.cluster.slurm_releases import RELEASES, Release, served_by
from tidepool.cluster.spec_entries import (
    Entry,
    Mistake,
    listed,
    nearest,
    numbered,
    part,
    source_name,
    total,
    words,
)

#: Infrastructures that make a machine anew from another image, and leave it what it is besides.
IMAGING: Final = frozenset({"aws", "libvirt", "metal"})
#: Infrastructures whose machines can be suspended.
SUSPENDING: Final = frozenset({"libvirt"})
#: Slurm's own limit (MAX_SLURM_NODES).
MOST_NODES: Final = 65_536


def disagreements(spec: Mapping[str, Any]) -> list[Mistake]:
    """All that does not agree in ``spec``, a plain mapping or the dump of a `ClusterSpec`; in a fixed order."""
    return [mistake for check in _CHECKS for mistake in check(spec)]


def _names_twice(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    # A pool is to Slurm what a fleet is.
    for kinds in (("fleets", "pools"), ("partitions",), ("offerings",)):
        first: dict[str, str] = {}
        for entry in listed(spec, *kinds):
            if entry.name is None:
                continue
            if entry.name in first:
                yield entry.mistake("name", f"{first[entry.name]} has this name already; give each its own")
            first.setdefault(entry.name, entry.path)


def _names_of_role_files(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    kinds = (*ROLES, "controller")
    taken = {f"{pool.name}-{kind}": pool for pool in listed(spec, "pools") for kind in kinds}
    for entry in listed(spec, "fleets", "pools"):
        if entry.name is not None and entry.name in taken:
            pool = taken[entry.name]
            said = f"under this name the files of a role of {pool.path} ({pool.name}) are kept; take another"
            yield entry.mistake("name", said)


def _features_that_are_fleets(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = listed(spec, "fleets", "pools")
    names = {fleet.name for fleet in fleets}
    for fleet in fleets:
        for i, feature in words(fleet.keys.get("features")):
            if feature in names:
                yield Mistake(
                    f"{fleet.path}.features[{i}]",
                    feature,
                    "this is a fleet's name, which is a feature of that fleet's nodes alone; take another word",
                )


def _fleets_unknown(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets, pools = spec.get("fleets", ()), spec.get("pools", ())
    names = [fleet.name for fleet in listed(spec, "fleets", "pools")]
    known = list(dict.fromkeys(name for name in names if name is not None))
    if not isinstance(fleets, list | tuple) or not isinstance(pools, list | tuple):
        return
    if len(names) < len(fleets) + len(pools) or None in names:
        return  # which fleets there are is not known
    for partition in listed(spec, "partitions"):
        seen = set()
        for i, name in words(partition.keys.get("fleets")):
            path = f"{partition.path}.fleets[{i}]"
            if name not in known:
                yield Mistake(path, name, f"there is no such fleet; {nearest(name, known)}")
            elif name in seen:
                yield Mistake(path, name, "this fleet is named twice; leave one out")
            seen.add(name)


def _infrastructures_unused(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Options of an infrastructure that nothing reads. Where a fleet's offering is wrong, it is not known what does."""
    own = source_name(part(spec, "controller").get("infrastructure"))
    is_known = not any(offerings.named(fleet.keys) for fleet in listed(spec, "fleets"))
    named = {
        source_name(each)
        for fleet in listed(spec, "fleets")
        for _, each in numbered(fleet.keys.get("infrastructures"))
    }
    places = (pool.keys.get("infrastructure") for pool in listed(spec, "pools"))
    named |= {source_name(place) for place in places if place is not None}
    for name in part(spec, "infrastructures"):
        path = f"infrastructures.{name}"
        if name == own:
            yield Mistake(
                path, None, "it is the controller's; write its options to controller.infrastructure.options"
            )
        elif name not in named and is_known:
            yield Mistake(
                path, None, f"no fleet or pool has machines of {name}; leave it out, or name it in one"
            )


def _defaults(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    defaults = [each for each in listed(spec, "partitions") if each.keys.get("default") is True]
    for partition in defaults[1:]:
        first = f"{defaults[0].path} ({defaults[0].name})"
        yield partition.mistake("default", f"{first} is the default already; one partition can be it")


def _too_many_nodes(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = listed(spec, "fleets")
    machines = total(listed(spec, "pools"), "machines")
    slots = total(fleets, "max_nodes") + machines
    if slots > MOST_NODES:
        of_pools = f", with the {machines} machines of pools" if machines else ""
        yield Mistake(
            "fleets",
            None,
            f"their max_nodes sum up to {slots}{of_pools}, and Slurm has room for {MOST_NODES}; lower them",
        )
    most = part(spec, "limits").get("max_nodes")
    least = total(fleets, "min_nodes")
    if isinstance(most, int) and most < least:
        yield Mistake(
            "limits.max_nodes",
            most,
            f"less than the min_nodes of all fleets, {least} together; raise it or lower those",
        )


def _pools_without_kubernetes(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    if listed(spec, "pools") and spec.get("kubernetes") is None:
        yield Mistake(
            "kubernetes",
            None,
            "missing, and there are pools, whose machines serve it in turns; write `kubernetes: {}` for a control plane "
            "of the cluster's own, or the path of a kubeconfig into it",
        )


def _images_of_roles(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Images of a pool's roles that no machine of its infrastructure could be made anew from."""
    own = source_name(part(spec, "controller").get("infrastructure"))
    for pool in listed(spec, "pools"):
        images = pool.keys.get("images")
        if not isinstance(images, Mapping):
            continue
        named = {role: images.get(role) or pool.keys.get("image", "debian-12-converged") for role in ROLES}
        place = pool.keys.get("infrastructure")
        where = own if place is None else source_name(place)
        if where is None or where in IMAGING or len({*map(str, named.values())}) < 2:
            continue
        yield Mistake(
            f"{pool.path}.images",
            None,
            f"machines of {where} are not made anew from another image by a conversion: name one image that holds both roles, or "
            f"have its machines from {', '.join(sorted(IMAGING))}",
        )


def _controller_on_a_pool(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    controller = part(spec, "controller")
    on = controller.get("runs_on")
    if not isinstance(on, str):
        return
    path = "controller.runs_on"
    pool, _, number = on.rpartition("-")
    pools = {entry.name: entry for entry in listed(spec, "pools") if entry.name is not None}
    found = pools.get(pool)
    if found is None:
        said = f"write one, as {', '.join(f'{name}-1' for name in pools)}" if pools else "there are no pools"
        yield Mistake(path, on, f"this is no machine of a pool; {said}")
        return
    machines, least = found.keys.get("machines"), found.keys.get("kubernetes_min")
    if isinstance(machines, int) and number not in map(str, range(1, machines + 1)):
        yield Mistake(
            path, on, f"the pool {pool} has no such machine: its machines are {pool}-[1-{machines}]"
        )
    elif found.keys.get("slurm_max") == 0 or (isinstance(machines, int) and least == machines):
        yield Mistake(
            path,
            on,
            f"no machine of the pool {pool} ever serves Slurm, by {found.path}: raise slurm_max, or lower kubernetes_min",
        )
    own = source_name(controller.get("infrastructure"))
    place = found.keys.get("infrastructure")
    if place is not None and source_name(place) != own:
        yield Mistake(
            path, on, f"slurmctld's files are where the controller is, on {own}, and {found.path}.infrastructure is another one"
        )  # fmt: skip
    if controller.get("backup") is True:
        yield Mistake("controller.backup", True, f"`ctl` stands by for {on} already; leave one of them out")
    if part(spec, "scaling").get("mode") == "power_save":
        yield Mistake(
            path,
            on,
            "with `mode: power_save` of scaling Slurm asks for nodes on the machine of whoever is in charge, and the scaler "
            "looks on `ctl` alone; leave one of them out",
        )


def _power_saving_of_a_tree(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    mode = part(spec, "scaling").get("mode")
    if mode == "power_save" and spec.get("topology") == "tree":
        yield Mistake(
            "scaling.mode",
            mode,
            "nodes of a tree stand in slurm.conf, where slurmctld does not bear them to be deleted; with "
            "`topology: tree` only `slots` can be",
        )


def _releases_that_do_not_work_together(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    controller = _release(spec)
    for entry in listed(spec, "fleets", "pools"):
        nodes, served = _release(entry.keys, controller), served_by(controller)
        if nodes not in served:
            yield Mistake(
                f"{entry.path}.slurm_version",
                nodes,
                f"slurmctld of {controller} serves nodes of {', '.join(served)} alone; take an image with one of those, or "
                "another cluster for these nodes",
            )


def _release(keys: Mapping[str, Any], default: Release = "22.05") -> Release:
    """The ``slurm_version`` that is said; what is none is passed over."""
    said = keys.get("slurm_version")
    text = f"{said:.2f}" if isinstance(said, float) else said
    return cast(Release, text) if text in RELEASES else default


def _options(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    controller = _release(spec)
    # slurmd reads slurm.conf and cgroup.conf as well, and one that is older ends at a key that it does not know.
    releases = sorted(
        {controller, *(_release(each.keys, controller) for each in listed(spec, "fleets", "pools"))}
    )
    places: list[tuple[str, object, Callable[[Release, str, Value], None]]] = [
        ("slurm_conf", spec.get("slurm_conf"), check_slurm_conf),
        ("cgroup_conf", spec.get("cgroup_conf"), check_cgroup_conf),
    ]
    places += [
        (f"{partition.path}.options", partition.keys.get("options"), check_partition)
        for partition in listed(spec, "partitions")
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
                for release in releases:
                    check(release, key, value)
            except ValueError as error:
                yield Mistake(f"{path}.{key}", value, str(error))


def _policies(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    fleets = {fleet.name: fleet.keys.get("max_nodes") for fleet in listed(spec, "fleets")}
    known = [name for name in fleets if name is not None]
    queue = ""
    capped: dict[object, str] = {}
    for policy in _policies_listed(spec):
        if policy.name in ("queue", "backlog"):
            if queue:
                yield policy.mistake("name", f"{queue} is one already; leave one of them out")
            queue = queue or f"{policy.path} ({policy.name})"
        if policy.name == "account":
            account = policy.keys.get("account")
            if isinstance(account, str) and account in capped:
                yield policy.mistake("account", f"{capped[account]} caps it already; leave one out")
            elif isinstance(account, str):
                capped[account] = policy.path
        fleet, nodes = policy.keys.get("fleet"), policy.keys.get("nodes")
        if policy.name == "warm":
            yield from _suspended(spec, policy)
        if not isinstance(fleet, str) or policy.name not in ("warm", "schedule"):
            continue
        most = fleets.get(fleet)
        suspended = policy.keys.get("suspended")
        if policy.name == "warm" and isinstance(nodes, int) and isinstance(suspended, int):
            nodes += suspended
        if fleet not in fleets:
            yield policy.mistake("fleet", f"there is no such fleet; {nearest(fleet, known)}")
        elif isinstance(most, int) and isinstance(nodes, int) and nodes > most:
            yield policy.mistake(
                "nodes", f"more than max_nodes of {fleet}, which is {most}; lower it or raise that"
            )


def _suspended(spec: Mapping[str, Any], policy: Entry) -> Iterator[Mistake]:
    """Find machines that cannot be suspended, and a policy that asks for nothing."""
    nodes, suspended = policy.keys.get("nodes"), policy.keys.get("suspended", 0)
    if nodes == 0 and suspended == 0:
        yield policy.mistake("nodes", "it asks for no node; write how many here, or as suspended")
    if not isinstance(suspended, int) or suspended <= 0:
        return
    if part(spec, "scaling").get("mode") == "power_save":
        yield policy.mistake(
            "suspended", "Slurm's power saving asks for nodes by name; leave it out, or write mode: slots"
        )
    for fleet in listed(spec, "fleets"):
        if fleet.name != policy.keys.get("fleet"):
            continue
        named = [source_name(each) for _, each in numbered(fleet.keys.get("infrastructures"))]
        is_known = not offerings.named(fleet.keys)
        where = [name for name in named if name is not None] or (["local"] if is_known else [])
        if len(where) > 1:
            yield policy.mistake(
                "suspended",
                f"fleet {fleet.name} is on several infrastructures, and is kept on one: leave it out",
            )
        elif where and where[0] not in SUSPENDING:
            yield policy.mistake(
                "suspended",
                f"infrastructure {where[0]} does not suspend machines: leave it out, or have them from {', '.join(sorted(SUSPENDING))}",
            )


def _policies_listed(spec: Mapping[str, Any]) -> list[Entry]:
    """A policy is a mapping, or only its name."""
    return [
        Entry(f"scaling.policies[{i}]", {"name": each} if isinstance(each, str) else each)
        for i, each in numbered(part(spec, "scaling").get("policies"))
        if isinstance(each, str | Mapping)
    ]


_CHECKS: Final[tuple[Callable[[Mapping[str, Any]], Iterator[Mistake]], ...]] = (
    _names_twice,
    _names_of_role_files,
    subnets_outside,
    subnets_overlapping,
    kubernetes_networks,
    _pools_without_kubernetes,
    _features_that_are_fleets,
    _fleets_unknown,
    _infrastructures_unused,
    _defaults,
    _too_many_nodes,
    _controller_on_a_pool,
    _images_of_roles,
    _power_saving_of_a_tree,
    _releases_that_do_not_work_together,
    _policies,
    account_checks.accounts,
    accounting.accounting_mistakes,
    user_checks.users,
    firewall_checks.firewall,
    file_mistakes,
    offering_mistakes,
    _options,
)
