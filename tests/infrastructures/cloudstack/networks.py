"""Networks of a CloudStack, their rules, and the ports of their routers."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

from tests.infrastructures.cloudstack.state import CloudError, Item, State, new_id


class Networks(State):
    """Their commands."""

    def createNetwork(
        self, name: str, networkofferingid: str, zoneid: str, gateway: str, netmask: str, **more: Any
    ) -> Item:
        self._limit("network", 1)
        cidr = IPv4Network(f"{gateway}/{netmask}", strict=False)
        vpc = next((each for each in self.vpcs if each["id"] == more.get("vpcid")), None)
        if vpc is not None and not cidr.subnet_of(IPv4Network(vpc["cidr"])):
            raise CloudError(431, f"Network cidr {cidr} is not within the cidr of the VPC {vpc['cidr']}")
        made = {
            "id": new_id(),
            "name": name,
            "cidr": str(cidr),
            "gateway": gateway,
            "state": "Allocated",
            "tags": [],
            **more,
        }
        self.networks[made["id"]] = made
        if vpc is None:
            address = {
                "id": new_id(),
                "ipaddress": "203.0.113.5",
                "associatednetworkid": made["id"],
                "issourcenat": True,
            }
            self.addresses[address["id"]] = address
        return {"network": made}

    def listNetworks(self, id: str = "", tags: Any = (), **_: Any) -> Item:
        return {
            "network": [
                each for each in self.networks.values() if id in ("", each["id"]) and self._tagged(each, tags)
            ]
        }

    def deleteNetwork(self, id: str, **_: Any) -> Item:
        self._there("id", self.networks, id)
        if any(vm["nic"][0]["networkid"] == id for vm in self.vms.values()):
            raise CloudError(530, f"Can't delete the network, not all user vms are expunged. Network {id}")

        def gone() -> None:
            self.networks.pop(id, None)
            for kept in (self.egress, self.addresses):
                for key in [
                    key
                    for key, each in kept.items()
                    if id in (each.get("networkid"), each.get("associatednetworkid"))
                ]:
                    del kept[key]

        return self._done("deleteNetwork", gone)

    def _rule(self, command: str, kept: dict[str, Item], key: str, given: Item) -> Item:
        made = {
            "id": new_id(),
            **{name: str(value) if name.endswith("port") else value for name, value in given.items()},
        }
        for name in ("cidrlist", "destcidrlist"):
            if name in made:
                made[name] = ",".join(made[name])
        kept[made["id"]] = made
        return self._job(command, lambda: {key: made}, made["id"])

    def createEgressFirewallRule(self, **given: Any) -> Item:
        self._there("networkid", self.networks, given["networkid"])
        return self._rule("createEgressFirewallRule", self.egress, "firewallrule", given)

    def listEgressFirewallRules(self, networkid: str, **_: Any) -> Item:
        return {"firewallrule": [each for each in self.egress.values() if each["networkid"] == networkid]}

    def deleteEgressFirewallRule(self, id: str) -> Item:
        self._there("id", self.egress, id)
        return self._done("deleteEgressFirewallRule", lambda: self.egress.pop(id, None))

    def createNetworkACLList(self, name: str, vpcid: str, **_: Any) -> Item:
        made = {"id": new_id(), "name": name, "vpcid": vpcid}
        self.acl_lists[made["id"]] = made
        return self._job("createNetworkACLList", lambda: {"networkacllist": made}, made["id"])

    def listNetworkACLLists(self, name: str = "", vpcid: str = "", **_: Any) -> Item:
        lists = self.acl_lists.values()
        return {"networkacllist": [each for each in lists if each["name"] == name and each["vpcid"] == vpcid]}

    def deleteNetworkACLList(self, id: str) -> Item:
        self._there("id", self.acl_lists, id)
        if any(each.get("aclid") == id for each in self.networks.values()):
            raise CloudError(530, "ACL is still associated with a network")
        for rule in [rule for rule in self.acls.values() if rule["aclid"] == id]:
            del self.acls[rule["id"]]
        return self._done("deleteNetworkACLList", lambda: self.acl_lists.pop(id, None))

    def createNetworkACL(self, **given: Any) -> Item:
        self._there("aclid", self.acl_lists, given["aclid"])
        return self._rule("createNetworkACL", self.acls, "networkacl", given)

    def listNetworkACLs(self, aclid: str, **_: Any) -> Item:
        return {"networkacl": [each for each in self.acls.values() if each["aclid"] == aclid]}

    def deleteNetworkACL(self, id: str) -> Item:
        self._there("id", self.acls, id)
        return self._done("deleteNetworkACL", lambda: self.acls.pop(id, None))

    def listPublicIpAddresses(self, associatednetworkid: str, issourcenat: bool = True, **_: Any) -> Item:
        found = [
            each for each in self.addresses.values() if each["associatednetworkid"] == associatednetworkid
        ]
        return {"publicipaddress": found}

    def createPortForwardingRule(self, **given: Any) -> Item:
        taken = [each for each in self.forwardings.values() if each["publicport"] == given["publicport"]]
        if taken:
            raise CloudError(
                537, f"The range specified, {given['publicport']}, conflicts with rule {taken[0]['id']}"
            )
        return self._rule("createPortForwardingRule", self.forwardings, "portforwardingrule", given)

    def listPortForwardingRules(self, ipaddressid: str = "", id: str = "", **_: Any) -> Item:
        rules = self.forwardings.values()
        return {
            "portforwardingrule": [
                each for each in rules if ipaddressid in ("", each["ipaddressid"]) and id in ("", each["id"])
            ]
        }

    def deletePortForwardingRule(self, id: str) -> Item:
        self._there("id", self.forwardings, id)
        return self._done("deletePortForwardingRule", lambda: self.forwardings.pop(id, None))

    def createFirewallRule(self, **given: Any) -> Item:
        return self._rule("createFirewallRule", self.firewall, "firewallrule", given)

    def listFirewallRules(self, ipaddressid: str, **_: Any) -> Item:
        return {
            "firewallrule": [each for each in self.firewall.values() if each["ipaddressid"] == ipaddressid]
        }

    def deleteFirewallRule(self, id: str) -> Item:
        self._there("id", self.firewall, id)
        return self._done("deleteFirewallRule", lambda: self.firewall.pop(id, None))
