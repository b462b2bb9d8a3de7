"""Checks of a spec's firewall rules against its network, its machines and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidepool.cluster.firewall import FILTERING
from tidepool.cluster.spec_entries import Entry, Mistake, as_network, listed, numbered, part


def firewall(spec: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find rules that nothing holds, that are of no machine, or that say what holds anyhow."""
    rules = part(spec, "firewall")
    logins, nodes, own = part(rules, "logins"), part(rules, "nodes"), part(rules, "controller")
    for path, egress in (("logins", logins), ("nodes", nodes), ("controller", own)):
        yield from _in_own_network(spec, f"firewall.{path}.egress", egress.get("egress"))
    controller = part(spec, "controller")
    if (logins.get("ingress") or logins.get("egress")) and controller.get("login_machines") == 0:
        yield Mistake(
            "firewall.logins",
            None,
            "there are no login machines; raise controller.login_machines, or leave it out",
        )
    if logins.get("ingress") or logins.get("egress"):
        yield from _unfiltered(
            "firewall.logins", "controller.infrastructure", controller.get("infrastructure")
        )
    if own.get("egress"):
        infrastructure = controller.get("infrastructure")
        yield from _unfiltered("firewall.controller.egress", "controller.infrastructure", infrastructure)
    if nodes.get("egress"):
        for fleet in listed(spec, "fleets"):
            for i, entry in numbered(fleet.keys.get("infrastructures")):
                yield from _unfiltered("firewall.nodes.egress", f"{fleet.path}.infrastructures[{i}]", entry)


def _in_own_network(spec: Mapping[str, Any], path: str, rules: object) -> Iterator[Mistake]:
    network = as_network(spec.get("network"))
    for i, rule in numbered(rules):
        if not isinstance(rule, Mapping):
            continue
        for j, to in numbered(rule.get("to")):
            other = as_network(f"{to}/32" if "/" not in str(to) else to)
            if network is not None and other is not None and other.subnet_of(network):
                yield Mistake(
                    f"{path}[{i}].to[{j}]", str(to), f"it is within the cluster's own network {network}, which all "
                    "machines reach; leave it out"
                )  # fmt: skip


def _unfiltered(path: str, where: str, entry: object) -> Iterator[Mistake]:
    name = Entry(where, entry).name if isinstance(entry, Mapping) else entry
    if isinstance(name, str) and name not in FILTERING:
        yield Mistake(
            path,
            None,
            f"{where} is {name}, whose hosts and network are somebody else's: nothing here would hold machines to it; have "
            "it written into their firewall, and leave it out here",
        )
