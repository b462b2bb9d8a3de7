"""Filters of machines on libvirt: which machines have one, what they come to, and packets of a machine that a filter holds."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.libvirt.daemon import SOFTWARE, Host, a_host
from tests.infrastructures.libvirt.daemon import missing as host_missing
from tests.infrastructures.libvirt.graph import DOMAIN, registered
from tests.infrastructures.libvirt.schemas import missing, wrong, xml_of
from tests.infrastructures.libvirt.specs import TO_LICENCES, TWO_HOSTS, spec
from tests.provider.calls import Calls, plainly
from tests.whole.cluster import until
from tidepool.cluster.firewall import Firewall
from tidepool.infrastructures.libvirt.ask import output_of, virsh
from tidepool.infrastructures.libvirt.filter import PARTS, Part, filter_xml

LICENCES, OTHER, LICENCE = "198.51.100.7", "198.51.100.8", 27000
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


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("ingress", [(), ("192.0.2.0/24",)])
def test_by_ssh_machines_are_reached_by_whom_the_spec_names_and_answer_nobody_else(
    part: Part, ingress: tuple[str, ...]
) -> None:
    firewall = Firewall.model_validate({"logins": {"ingress": [{"from": ingress}] if ingress else []}})
    network, administrators = IPv4Network("10.77.0.0/16"), [IPv4Network("198.51.100.0/28")]
    definition = filter_xml("dev", part, network, firewall, mounts=False, administrators=administrators)
    root = ET.fromstring(definition)
    if not missing():
        assert wrong(definition, "nwfilter") == ""
    for address, allowed in (
        ("10.77.0.1", True),
        ("198.51.100.9", True),
        ("192.0.2.7", part == "logins" and bool(ingress)),
        # Whoever else is at the bridge.
        ("203.0.113.5", False),
    ):
        assert passes(root, "in", "src", address, dstport="22") == allowed, address
        assert passes(root, "out", "dst", address, srcport="22") == allowed, address
    # Answers to what machines ask of others arrive.
    assert passes(root, "in", "src", "203.0.113.5", dstport="40000")


def passes(root: ET.Element, direction: str, side: str, address: str, **ports: str) -> bool:
    """What the first rule says that fits a packet of TCP from there, or to there."""
    for rule in sorted(root.iterfind("rule"), key=lambda each: int(each.get("priority", ""))):
        if rule.get("direction") != direction or rule.find("arp") is not None:
            continue
        told = rule.find("ip")
        if told is None:
            return rule.get("action") == "accept"
        ranges = {key: told.get(f"{key}start") for key in ("srcport", "dstport")}
        network = IPv4Network((told.get(f"{side}ipaddr", "0.0.0.0"), int(told.get(f"{side}ipmask", "0"))))
        fits = all(port is None or port == ports.get(key) for key, port in ranges.items())
        if fits and told.get("protocol", "tcp") == "tcp" and IPv4Address(address) in network:
            return rule.get("action") == "accept"
    return True


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


#: What the network card's own program does when a machine has nothing to boot from: it asks, again and again.
SCRIPT = (
    "#!ipxe\n"
    ":again\n"
    f"imgfetch --timeout 3000 http://{OTHER}:{LICENCE}/other ||\n"
    f"imgfetch --timeout 3000 http://{LICENCES}:{LICENCE}/licence ||\n"
    "imgfree\n"
    "goto again\n"
)
MACHINE = """\
<domain type="qemu">
  <name>dev-cpu-1</name>
  <memory unit="MiB">128</memory>
  <vcpu>1</vcpu>
  <os><type arch="x86_64" machine="pc">hvm</type><boot dev="network"/></os>
  <devices>
    <interface type="bridge">
      <source bridge="br0"/><mac address="02:74:0a:4d:0a:01"/><model type="virtio"/>
      <filterref filter="tidepool-dev-nodes"/>
    </interface>
  </devices>
</domain>
"""
#: Answers whoever asks for a file with the script, and tells of each.
SERVER = """\
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, flush=True)
        self.send_response(200)
        self.send_header("Content-Length", str(len(sys.argv[2])))
        self.end_headers()
        self.wfile.write(sys.argv[2].encode())

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
"""


@contextmanager
def asked_for(host: Host) -> Iterator[Callable[[], str]]:
    """A bridge of the host with its addresses and a DHCP server; gives all that machines asked of it for so far."""
    lines = (
        "link add br0 type bridge stp_state 0",
        "addr add 10.77.0.1/16 dev br0",
        *(f"addr add {address}/32 dev lo" for address in (LICENCES, OTHER)),
        "link set br0 up",
    )
    subprocess.run([*host.prefix, "ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)
    gives = (
        *("--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=br0", "--leasefile-ro"),
        *("--dhcp-range=10.77.0.0,static", "--dhcp-host=02:74:0a:4d:0a:01,10.77.10.1", "--user=root"),
        *("--dhcp-option=3,10.77.0.1", f"--dhcp-boot=http://{LICENCES}:{LICENCE}/script", "--pid-file="),
    )
    log = host.folder / "log" / "asked.log"
    with (
        log.open("w") as said,
        subprocess.Popen([*host.prefix, "dnsmasq", *gives], stderr=subprocess.DEVNULL) as dhcp,
        subprocess.Popen(
            [*host.prefix, sys.executable, "-c", SERVER, str(LICENCE), SCRIPT], stdout=said
        ) as http,
    ):
        try:
            yield log.read_text
        finally:
            dhcp.kill()
            http.kill()


@pytest.mark.slow
@pytest.mark.skipif(bool(host_missing(file_server=True)), reason=host_missing(file_server=True))
@pytest.mark.runs("libvirt", SOFTWARE)
def test_packets_of_a_machine_go_where_the_rules_say_and_elsewhere_once_they_say_so(tmp_path: Path) -> None:
    def definition(*to: str) -> str:
        rules = {"nodes": {"egress": [{"to": to, "ports": [LICENCE]}]}}
        found = registered(spec(bridge="br0", firewall=rules))[f"{FILTER} nodes@here"]
        return str(found.inputs["definition"])

    with a_host(tmp_path / "h") as host, asked_for(host) as asked:
        output_of(virsh, host.uri, "nwfilter-define", "/dev/stdin", stdin=definition(LICENCES))
        output_of(virsh, host.uri, "create", "/dev/stdin", stdin=MACHINE)
        until(lambda: asked().count("/licence") > 1 or None, "it asks for licences", 240)
        assert "/other" not in asked()
        output_of(virsh, host.uri, "nwfilter-define", "/dev/stdin", stdin=definition(LICENCES, OTHER))
        until(lambda: "/other" in asked() or None, "the same machine asks the other one", 120)
        output_of(virsh, host.uri, "nwfilter-define", "/dev/stdin", stdin=definition(OTHER))
        until(lambda: asked().split()[-3:] == ["/other"] * 3 or None, "it asks the other one alone", 120)
        output_of(virsh, host.uri, "destroy", "dev-cpu-1")
