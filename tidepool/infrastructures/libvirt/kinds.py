"""Kinds of resources of libvirt: the provider's side of `tidepool.infrastructures.libvirt.resources`."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping

from tidepool.infrastructures.libvirt.ask import LibvirtError, output_of, virsh
from tidepool.infrastructures.libvirt.resources import NetworkFilter, NetworkFilterModel
from tidepool.resources.kind import AS_KNOWN, IdempotentKind, Made, Refusal, Task
from tidepool.resources.values import Plain


class NetworkFilterKind(IdempotentKind[NetworkFilterModel]):
    """A filter, defined by `virsh`."""

    resource = NetworkFilter

    def create(self, wanted: NetworkFilterModel, task: Task) -> Made:
        _do(wanted.uri, "nwfilter-define", "/dev/stdin", stdin=wanted.definition)
        return Made(f"{wanted.uri}/{wanted.filter}")

    def look(self, id: str, state: NetworkFilterModel) -> Mapping[str, Plain] | None:
        if state.filter not in _names(state.uri):
            return None
        there = _do(state.uri, "nwfilter-dumpxml", state.filter)
        return AS_KNOWN if _rules(there) == _rules(state.definition) else {"state": "changed by hand"}

    def delete(self, id: str, state: NetworkFilterModel, task: Task) -> None:
        if state.filter in _names(state.uri):
            _do(state.uri, "nwfilter-undefine", state.filter)


def _do(uri: str, *words: str, stdin: str = "") -> str:
    try:
        return output_of(virsh, uri, *words, stdin=stdin)
    except LibvirtError as error:
        raise Refusal(str(error)) from None


def _names(uri: str) -> frozenset[str]:
    lines = _do(uri, "nwfilter-list").splitlines()
    return frozenset(line.split()[1] for line in lines if len(line.split()) == 2)


def _rules(definition: str) -> list[tuple[int, str]]:
    """The rules as they mean, in their order, whatever else libvirt writes of them."""
    found = []
    for rule in ET.fromstring(definition).iterfind("rule"):  # noqa: S314 - said by a libvirtd that may do all on its host
        packets = [(each.tag, sorted(each.attrib.items())) for each in rule]
        found.append(
            (int(rule.get("priority", "500")), f"{rule.get('action')} {rule.get('direction')} {packets}")
        )
    return sorted(found)
