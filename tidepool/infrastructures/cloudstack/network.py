"""Kinds of a network and of the ports that lead into it: the provider's side of `resources`.

An isolated network has rules of its own; a tier of a VPC has those of an access list, which is made with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from typing import Any, Final

from tidepool.cluster.failures import InsufficientCapacity
from tidepool.infrastructures.cloudstack.api import Api, NotThere, Wait
from tidepool.infrastructures.cloudstack.kind import CloudStackKind
from tidepool.infrastructures.cloudstack.machine import STACK, group_of, tag
from tidepool.infrastructures.cloudstack.resources import (
    CloudStackNetwork,
    CloudStackNetworkModel,
    CloudStackPortForwarding,
    CloudStackPortForwardingModel,
)
from tidepool.infrastructures.cloudstack.rules import Rule, router_of
from tidepool.resources.kind import AS_KNOWN, Made, Task
from tidepool.resources.values import Plain

_SSH: Final = 22
_CHANGED: Final[Mapping[str, Plain]] = {"state": "changed by hand"}


class CloudStackNetworkKind(CloudStackKind[CloudStackNetworkModel]):
    """A network by its name, with rules that are all of its rules."""

    resource = CloudStackNetwork
    timeout_s = 600.0

    def create(self, wanted: CloudStackNetworkModel, task: Task) -> Made:
        api, wait = self.api(wanted), self.waiting(task)
        name = group_of(wanted.stack)
        found = [each for each in api.own("listNetworks") if each["name"] == name]
        there = found[0] if found else self._made(api, wanted, wait)
        if STACK not in {each["key"] for each in there.get("tags", ())}:
            tag(api, "Network", str(there["id"]), {STACK: wanted.stack}, wait)
        _Rules(api, there, wait).become(wanted.rules)
        return Made(str(there["id"]))

    def look(self, id: str, state: CloudStackNetworkModel) -> Mapping[str, Plain] | None:
        api = self.api(state)
        there = _network(api, id)
        if there is None:
            return None
        return AS_KNOWN if _Rules(api, there, lambda _: False).are(state.rules) else _CHANGED

    def delete(self, id: str, state: CloudStackNetworkModel, task: Task) -> None:
        api, wait = self.api(state), self.waiting(task)
        if _network(api, id) is not None:
            try:
                api.do("deleteNetwork", wait, id=id)
            except NotThere:
                pass
        if state.vpc and (acl := _acl(api, state)):
            api.do("deleteNetworkACLList", wait, id=acl)

    def _made(self, api: Api, wanted: CloudStackNetworkModel, wait: Wait) -> Mapping[str, Any]:
        offerings = api.listed("listNetworkOfferings", state="Enabled")
        offering = next((each for each in offerings if each["name"] == wanted.offering), None)
        if offering is None:
            raise NotThere(f"there is no network offering {wanted.offering}, or it is not enabled")
        more = {}
        if wanted.vpc:
            acl = _acl(api, wanted)
            if not acl:
                told = {"name": group_of(wanted.stack), "vpcid": _vpc(api, wanted.vpc)}
                acl = str(api.do("createNetworkACLList", wait, **told)["networkacllist"]["id"])
            more = {"vpcid": _vpc(api, wanted.vpc), "aclid": acl}
        cidr = IPv4Network(wanted.cidr)
        made = api.call(
            "createNetwork",
            **api.owner,
            name=group_of(wanted.stack),
            displaytext=f"the stack {wanted.stack} of Tidepool",
            networkofferingid=offering["id"],
            zoneid=api.zone(wanted.zone)["id"],
            gateway=str(router_of(cidr)),
            netmask=str(cidr.netmask),
            **more,
        )
        return dict(made["network"])


def _network(api: Api, id: str) -> Mapping[str, Any] | None:
    try:
        found = api.own("listNetworks", id=id)
    except NotThere:
        return None
    return found[0] if found else None


def _vpc(api: Api, name: str) -> str:
    found = [each for each in api.own("listVPCs") if each["name"] == name]
    if not found:
        raise NotThere(f"there is no VPC {name} that these keys may see")
    return str(found[0]["id"])


def _acl(api: Api, wanted: CloudStackNetworkModel) -> str:
    name = group_of(wanted.stack)
    found = api.own("listNetworkACLLists", vpcid=_vpc(api, wanted.vpc), name=name)
    return next((str(each["id"]) for each in found if each["name"] == name), "")


#: As long as an access list has no rule for what leaves, all may: one that refuses it is the last.
_REFUSED: Final[Any] = ("deny", "all", frozenset({"0.0.0.0/0"}), frozenset(), 0, 0)


class _Rules:
    """The rules of one network, of either form; each as what it says, by its id."""

    def __init__(self, api: Api, network: Mapping[str, Any], wait: Wait) -> None:
        self._api, self._wait = api, wait
        self._id, self._acl = str(network["id"]), str(network.get("aclid") or "")

    def are(self, rules: Iterable[Rule]) -> bool:
        there = [said for _, said in self._there()]
        return sorted(map(repr, there)) == sorted(map(repr, self._wanted(rules)))

    def become(self, rules: Iterable[Rule]) -> None:
        """Add what is missing before what is too much goes: who may go out still may."""
        wanted = self._wanted(rules)
        there = self._there()
        known = {said for _, said in there}
        for number, said in enumerate(wanted, 1):
            if said not in known:
                self._add(said, number)
        kept: set[Any] = set()
        for id, said in there:
            if said not in wanted or said in kept:
                self._remove(id)
            kept.add(said)

    def _wanted(self, rules: Iterable[Rule]) -> list[Any]:
        if self._acl:
            return [*(_said("allow", rule, rule.to, ()) for rule in rules), _REFUSED]
        return [_said("", rule, rule.sources, rule.to) for rule in rules]

    def _there(self) -> list[tuple[str, Any]]:
        if self._acl:
            listed = self._api.own("listNetworkACLs", aclid=self._acl)
            return [
                (str(each["id"]), _read(each, str(each.get("action", "allow")).lower()))
                for each in listed
                if str(each.get("traffictype", "egress")).lower() == "egress"
            ]
        return [
            (str(each["id"]), _read(each, ""))
            for each in self._api.own("listEgressFirewallRules", networkid=self._id)
        ]

    def _add(self, said: Any, number: int) -> None:
        action, protocol, first_list, second_list, first, last = said
        ports = {"startport": first, "endport": last} if first else {}
        if self._acl:
            self._api.do(
                "createNetworkACL",
                self._wait,
                aclid=self._acl,
                protocol=protocol,
                cidrlist=sorted(first_list),
                traffictype="egress",
                action=action,
                # Rules are looked at by their numbers, the one that refuses at the end.
                number=number if action == "allow" else 60_000,
                **ports,
            )
            return
        self._api.do(
            "createEgressFirewallRule",
            self._wait,
            networkid=self._id,
            protocol=protocol,
            cidrlist=sorted(first_list),
            destcidrlist=sorted(second_list),
            **ports,
        )

    def _remove(self, id: str) -> None:
        command = "deleteNetworkACL" if self._acl else "deleteEgressFirewallRule"
        try:
            self._api.do(command, self._wait, id=id)
        except NotThere:
            return


def _said(action: str, rule: Rule, first: Iterable[str], second: Iterable[str]) -> Any:
    return (action, rule.protocol, frozenset(first), frozenset(second), rule.first, rule.last)


def _read(each: Mapping[str, Any], action: str) -> Any:
    lists = [
        frozenset(filter(None, str(each.get(key) or "").split(","))) for key in ("cidrlist", "destcidrlist")
    ]
    ports = [int(each.get(key) or 0) for key in ("startport", "endport")]
    return (action, str(each["protocol"]).lower(), *lists, *ports)


class CloudStackPortForwardingKind(CloudStackKind[CloudStackPortForwardingModel]):
    """A port of the network's source NAT address, and who may use it."""

    resource = CloudStackPortForwarding

    def create(self, wanted: CloudStackPortForwardingModel, task: Task) -> Made:
        api, wait = self.api(wanted), self.waiting(task)
        address = self._address(api, wanted.network)
        rule = self._rule(api, address, wanted.port)
        if rule is not None and rule["virtualmachineid"] != wanted.machine:
            # It led to one that is no more.
            self._do(api, "deletePortForwardingRule", wait, str(rule["id"]))
            rule = None
        if rule is None:
            made = api.do(
                "createPortForwardingRule",
                wait,
                ipaddressid=address,
                protocol="tcp",
                publicport=wanted.port,
                privateport=_SSH,
                virtualmachineid=wanted.machine,
                networkid=wanted.network,
                # Who may use it is said by rules of its own.
                openfirewall=False,
            )
            rule = made["portforwardingrule"]
        there = self._sources(api, address, wanted.port)
        for source in sorted({*wanted.sources} - there.keys()):
            api.do(
                "createFirewallRule",
                wait,
                ipaddressid=address,
                protocol="tcp",
                startport=wanted.port,
                endport=wanted.port,
                cidrlist=[source],
            )
        for source in sorted(there.keys() - {*wanted.sources}):
            self._do(api, "deleteFirewallRule", wait, there[source])
        return Made(str(rule["id"]))

    def look(self, id: str, state: CloudStackPortForwardingModel) -> Mapping[str, Plain] | None:
        api = self.api(state)
        if _network(api, state.network) is None:
            return None
        address = self._address(api, state.network)
        rule = self._rule(api, address, state.port)
        if rule is None or str(rule["id"]) != id:
            return None
        return AS_KNOWN if {*self._sources(api, address, state.port)} == {*state.sources} else _CHANGED

    def delete(self, id: str, state: CloudStackPortForwardingModel, task: Task) -> None:
        api, wait = self.api(state), self.waiting(task)
        self._do(api, "deletePortForwardingRule", wait, id)
        if _network(api, state.network) is not None:
            for each in self._sources(api, self._address(api, state.network), state.port).values():
                self._do(api, "deleteFirewallRule", wait, each)

    def _address(self, api: Api, network: str) -> str:
        found = api.own("listPublicIpAddresses", associatednetworkid=network, issourcenat=True)
        if not found:
            raise InsufficientCapacity(
                "the network has no public address yet: its offering has no source NAT, or the zone has no more addresses"
            )
        return str(found[0]["id"])

    def _rule(self, api: Api, address: str, port: int) -> Mapping[str, Any] | None:
        found = api.own("listPortForwardingRules", ipaddressid=address)
        return next((each for each in found if int(each["publicport"]) == port), None)

    def _sources(self, api: Api, address: str, port: int) -> Mapping[str, str]:
        """Return who may use the port, each with the id of its rule."""
        found = api.own("listFirewallRules", ipaddressid=address)
        return {
            source: str(each["id"])
            for each in found
            if int(each.get("startport") or 0) == port
            for source in str(each["cidrlist"]).split(",")
        }

    def _do(self, api: Api, command: str, wait: Wait, id: str) -> None:
        try:
            api.do(command, wait, id=id)
        except NotThere:
            return
