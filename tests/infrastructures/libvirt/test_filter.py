"""Filters of machines on libvirt: which machines have one, what they come to, and packets of a machine that a filter holds."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.libvirt.daemon import SOFTWARE, a_host
from tests.infrastructures.libvirt.daemon import missing as host_missing
from tests.infrastructures.libvirt.graph import DOMAIN, registered
from tests.infrastructures.libvirt.schemas import missing, wrong, xml_of
from tests.infrastructures.libvirt.specs import TO_LICENCES, TWO_HOSTS, spec
from tests.provider.calls import Calls, plainly
from tidepool.infrastructures.libvirt.ask import output_of, virsh

FILTER = "tidepool:libvirt:NetworkFilter"
RULES: dict[str, Any] = {
    "logins": {"ingress": [{"from": ["192.0.2.0/24"]}], "egress": [{"to": ["0.0.0.0/0"], "ports": [443]}]},
    **TO_LICENCES,
}


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_machines_of_a_network_with_a_way_out_have_the_filter_of_their_part() -> None:
    graph = registered(spec(bridge="br0", hosts=TWO_HOSTS, firewall=RULES))
    for name, part in (("ctl", "own"), ("login-1", "logins"), ("cpu-1", "nodes"), ("cpu-2", "nodes")):
        domain = graph[f"{DOMAIN} {name}"]
        xml = xml_of(domain)
        assert wrong(xml, "domain") == ""
        (filtered,) = ET.fromstring(xml).iterfind("devices/interface/filterref")
        assert filtered.get("filter") == f"tidepool-dev-{part}"
        # It is there before the machine is, on each host.
        assert {f"{FILTER} {part}@{host}" for host in TWO_HOSTS} <= domain.depends_on
    for each in graph.of_type(FILTER).values():
        assert wrong(each.inputs["definition"], "nwfilter") == ""
    # Also without rules: then they reach nothing there.
    assert set(registered(spec(bridge="br0")).of_type(FILTER)) == {"own@here", "logins@here", "nodes@here"}
    # Without a way out there is nothing to filter.
    assert "filterref" not in xml_of(registered(spec())[f"{DOMAIN} cpu-1"])


def test_rules_are_another_definition_and_no_other_machine() -> None:
    one, two = (registered(spec(bridge="br0", firewall=each)) for each in (RULES, None))
    assert one[f"{DOMAIN} cpu-1"].inputs == two[f"{DOMAIN} cpu-1"].inputs
    definitions = [each[f"{FILTER} nodes@here"].inputs["definition"] for each in (one, two)]
    licences = (
        'dstipaddr="198.51.100.7" dstipmask="32" protocol="tcp" dstportstart="27000" dstportend="27010"'
    )
    assert [licences in each for each in definitions] == [True, False]


@pytest.mark.slow
@pytest.mark.skipif(bool(host_missing()), reason=host_missing())
@pytest.mark.runs("libvirt", SOFTWARE)
def test_a_filter_is_changed_in_place_seen_when_somebody_changed_it_and_gone_at_the_end(
    tmp_path: Path,
) -> None:
    asked = Calls(tmp_path, FILTER)
    definitions = {
        name: registered(spec(bridge="br0", firewall=rules))[f"{FILTER} nodes@here"].inputs["definition"]
        for name, rules in (("with", RULES), ("without", None))
    }
    with a_host(tmp_path / "h") as host:
        given = {"uri": host.uri, "filter": "tidepool-dev-nodes"}
        before, after = (
            asked.checked({**given, "definition": definitions[name]}) for name in ("without", "with")
        )
        id = str(asked.create(before).resource_id)
        asked.update(id, before, after)
        assert "198.51.100.7" in output_of(virsh, host.uri, "nwfilter-dumpxml", "tidepool-dev-nodes")
        assert plainly(asked.read(id, after, after).properties)["state"] == "defined"
        output_of(virsh, host.uri, "nwfilter-define", "/dev/stdin", stdin=definitions["without"])
        assert plainly(asked.read(id, after, after).properties)["state"] == "changed by hand"
        asked.delete(id, after)
        assert "tidepool" not in output_of(virsh, host.uri, "nwfilter-list")
        assert not asked.read(id, after, after).resource_id
