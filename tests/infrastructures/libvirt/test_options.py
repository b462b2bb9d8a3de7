"""Options of libvirt: each mistake with its key and the remedy, all of them at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.infrastructures.libvirt.specs import TO_LICENCES, TUNED, TWO_HOSTS, VOLUMES, mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.infrastructures.libvirt.options import Cell, Offering, SiteOptions, read_cpus, write_cpus
from tidepool.infrastructures.libvirt.preflight import demands
from tidepool.infrastructures.libvirt.reading import read_options
from tidepool.infrastructures.libvirt.seat import Seat, own_seats, seat, seats
from tidepool.infrastructures.reading import pool_mistakes

FLEET = "fleets[0].infrastructures[0].options"
OWN = "controller.infrastructure.options"


def mistakes_of(described: dict[str, Any]) -> dict[str, str]:
    """By path."""
    with pytest.raises(SpecError) as raised:
        read_options(ClusterSpec.model_validate(described))
    return {mistake.path: mistake.message for mistake in raised.value.mistakes}


def test_what_nobody_says_is_what_is_usual() -> None:
    options = read_options(spec())
    assert dict(options.place.hosts) == {"here": "qemu:///system"}
    offering = options.offerings["cpu", "libvirt"]
    assert (offering.virtualization, offering.machine_type, offering.cpu) == (
        "kvm",
        "q35",
        "host-passthrough",
    )
    assert offering.boot_timeout_s == 600
    emulated = read_options(spec({"virtualization": "qemu"})).offerings["cpu", "libvirt"]
    assert (emulated.cpu, emulated.boot_timeout_s) == ("maximum", 1200)


def test_all_that_can_be_said_is_read() -> None:
    offering = read_options(spec(TUNED)).offerings["cpu", "libvirt"]
    assert [(cell.node, cell.cpus) for cell in offering.cells] == [
        (0, tuple(range(4, 12))),
        (1, tuple(range(16, 24))),
    ]
    assert offering.pci_devices[1] == "0000:3b:00.1"
    assert (offering.page_kib, offering.disk_mib) == (2048, 32768)


@pytest.mark.parametrize(
    ("offering", "key", "words"),
    [
        ({"cells": [{"node": 0, "cpus": "4-2"}]}, "cells[0].cpus", "write numbers"),
        ({"cells": [{"node": 0, "cpus": "4-7,5"}]}, "cells[0].cpus", "5 stands there twice"),
        ({"cells": [{"node": -1, "cpus": "4-7"}]}, "cells[0].node", "greater than or equal to 0"),
        ({"cells": [{"node": 0, "cpus": "0-1"}]}, "cells[0].cpus", "a machine has 4 processors"),
        (
            {"cells": [{"node": 0, "cpus": "0-3"}, {"node": 1, "cpus": "3-7"}]},
            "cells",
            "are in two cells",
        ),
        (
            {"cells": [{"node": 0, "cpus": "0-11"}]},
            "cells",
            "enough for 3 machines on each host, and there can be 4",
        ),
        ({"pci_devices": ["3b.0"]}, "pci_devices[0]", "lspci -D"),
        ({"pci_devices": ["3b:00.0", "0000:3b:00.0"]}, "pci_devices", "stands here twice"),
        ({"pci_devices": ["3b:00.0"]}, "pci_devices", "at most 1 machines"),
        ({"hugepages": "1GiB"}, "hugepages", "write overhead: 1024MiB"),
        ({"hugepages": "4KiB"}, "hugepages", "'2MiB' or '1GiB'"),
        ({"virtualization": "qemu", "cpu": "host-passthrough"}, "cpu", "it needs KVM"),
        ({"machine_type": "virt"}, "machine_type", "pattern"),
        ({"hosts": ["gamma"]}, "hosts[0]", "hosts are here"),
        ({"boot_timeout_s": 3600}, "boot_timeout_s", "less than or equal to 1500"),
        ({"disk": "1GiB"}, "disk", "greater than or equal to 4096"),
        (
            {"instance_type": "c7i"},
            "instance_type",
            "no such key; did you mean machine_type? known here: hosts, ",
        ),
    ],
)
def test_a_mistake_of_an_offering_is_told_with_its_key(
    offering: dict[str, Any], key: str, words: str
) -> None:
    found = mistakes_of(mapping(offering))
    assert list(found) == [f"{FLEET}.{key}"]
    assert words in found[f"{FLEET}.{key}"]


@pytest.mark.parametrize(
    ("place", "controller", "key", "words"),
    [
        ({"hosts": {"alpha": "ssh://alpha"}}, {}, "hosts.alpha", "write a libvirt URI"),
        ({"hosts": {}}, {}, "hosts", "at least 1"),
        ({"hosts": TWO_HOSTS}, {}, "bridge", "name a bridge that all hosts have"),
        ({"bridge": "br0", "outside": True}, {}, "outside", "the bridge decides"),
        ({"outside": True}, {}, "outside", "no rule lets machines use it"),
        ({"administrators": ["192.0.2.0/24"]}, {}, "administrators", "leave it out, or name a bridge"),
        ({"firewall": TO_LICENCES}, {}, "outside", "write outside: true, or name a bridge"),
        (
            {"firewall": {"logins": {"ingress": [{"from": ["192.0.2.0/24"]}]}}},
            {},
            "bridge",
            "nothing leads into a network of libvirt's own",
        ),
        ({"volumes": {"home": "nas:/h"}}, {}, "volumes.slurmctld", "it is missing"),
        ({}, {"accounting": {}}, "volumes.database", "it is missing"),
        ({"volumes": {"home": "/srv", "slurmctld": "nas:/s"}}, {}, "volumes.home", "SERVER:/PATH"),
        ({"pool": "srv"}, {}, "pool", "pattern"),
        ({}, {"backup": True}, "apart", "name two hosts, or write apart: false"),
    ],
)
def test_a_mistake_of_the_place_is_told_with_its_key(
    place: dict[str, Any], controller: dict[str, Any], key: str, words: str
) -> None:
    found = mistakes_of(mapping(controller=controller, **place))
    assert list(found) == [f"{OWN}.{key}"]
    assert words in found[f"{OWN}.{key}"]


def test_all_mistakes_are_told_at_once() -> None:
    described = mapping(
        {"cells": [{"node": 0, "cpus": "x"}], "cpu": "fast"}, pool="here", volumes={"home": "nas"}
    )
    described["pools"] = [
        {"name": "both", "subnet": "10.77.20.0/24", "machines": 2, "shape": {"cpus": 1, "memory": "1GiB"}}
    ]
    described["kubernetes"] = {}
    assert set(mistakes_of(described)) == {
        f"{OWN}.pool",
        f"{OWN}.volumes.home",
        f"{FLEET}.cells[0].cpus",
        f"{FLEET}.cpu",
        "kubernetes.kubeconfig",
    }


def test_two_offerings_have_nothing_of_a_host_together() -> None:
    own = {"cells": [{"node": 0, "cpus": "2-7"}], "pci_devices": ["3b:00.1", "5e:00.0", "5e:00.1"]}
    found = mistakes_of(mapping(TUNED, machines=own, controller={"login_machines": 0}))
    assert found == {
        f"{FLEET}.cells": f"{OWN}.machines.cells has them on the same host",
        f"{FLEET}.pci_devices": f"{OWN}.machines.pci_devices has them on the same host",
    }


def test_two_offerings_may_have_the_same_of_two_hosts() -> None:
    own = {"cells": [{"node": 0, "cpus": "4-9"}], "hosts": ["beta"]}
    tuned = {**TUNED, "hosts": ["alpha"]}
    read_options(spec(tuned, machines=own, hosts=TWO_HOSTS, bridge="br0", controller={"login_machines": 2}))


def test_a_backup_is_on_another_host_or_somebody_wanted_it_otherwise() -> None:
    backup = {"backup": True}
    read_options(spec(hosts=TWO_HOSTS, bridge="br0", controller=backup))
    read_options(spec(apart=False, controller=backup))


@given(st.sets(st.integers(0, 99999), min_size=1, max_size=40))
def test_processors_are_read_as_they_are_written(cpus: set[int]) -> None:
    assert read_cpus(write_cpus(cpus)) == tuple(sorted(cpus))


@given(
    cells=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    cpus=st.integers(1, 4),
    hosts=st.integers(1, 3),
)
def test_no_two_machines_have_one_processor_and_none_is_over_two_cells(
    cells: list[int], cpus: int, hosts: int
) -> None:
    start, made = 0, []
    for node, size in enumerate(cells):
        made.append(Cell(node=node, cpus=tuple(range(start, start + size))))
        start += size
    offering = Offering(cells=tuple(made))
    names = [f"host-{number}" for number in range(hosts)]
    room = sum(size // cpus for size in cells) * hosts
    seats = [seat(offering, names, cpus, number) for number in range(1, room + 1)]
    pinned = [(each.host, cpu) for each in seats for cpu in each.cpus]
    assert len(pinned) == len(set(pinned)) == room * cpus
    for each in seats:
        assert {node for node, cell in enumerate(made) if {*cell.cpus} & {*each.cpus}} == {each.node}
    with pytest.raises(ValueError, match="one more"):
        seat(offering, names, cpus, room + 1)


def test_hosts_are_asked_for_all_that_their_machines_need() -> None:
    described = spec(TUNED, hosts=TWO_HOSTS, bridge="br0", controller={"backup": True})
    options = read_options(described)
    alpha, beta = (demands(described, options, host) for host in TWO_HOSTS)
    # The accounting machine would be on alpha, and login-1 is on beta whether it is there or not.
    assert [(each.path, each.machines) for each in alpha] == [(f"{OWN}.machines", 1), (FLEET, 2)]
    assert [(each.path, each.machines) for each in beta] == [(f"{OWN}.machines", 2), (FLEET, 2)]
    assert beta[1].memory_mib == 4096 + 256
    assert beta[1].pci == ("0000:3b:00.0", "0000:3b:00.1")


def test_hosts_of_a_map_are_in_the_order_of_their_names_and_those_of_a_list_as_it_is() -> None:
    hosts = {f"kvm{number}": f"qemu+ssh://root@kvm{number}/system" for number in (1, 10, 2)}
    options = read_options(spec(hosts=hosts, bridge="br0", machines={"hosts": ["kvm10", "kvm2"]}))
    assert options.hosts_of(options.offerings["cpu", "libvirt"]) == ("kvm1", "kvm2", "kvm10")
    assert options.hosts_of(options.place.machines) == ("kvm10", "kvm2")


def test_own_machines_that_are_not_there_have_no_processors_and_no_devices() -> None:
    own = {"cells": [{"node": 0, "cpus": "2-5"}], "pci_devices": ["3b:00.0", "3b:00.1"]}
    described = spec(machines=own)
    options = read_options(described)
    found = [seat for _, seat in own_seats(described, options.place.machines, ("here",))]
    assert found == [
        Seat("here", 0, (2, 3), ("0000:3b:00.0",)),
        Seat("here", 0, (4, 5), ("0000:3b:00.1",)),
    ]
    (asked, _) = demands(described, options, "here")
    assert (asked.machines, asked.cells, len(asked.pci)) == (2, {0: (2, 3, 4, 5)}, 2)


def test_the_accounting_machine_is_asked_for_with_its_own_shape() -> None:
    accounting = {"accounting": {"shape": {"cpus": 4, "memory": "8GiB"}}}
    described = spec(
        machines={"cells": [{"node": 0, "cpus": "0-3"}, {"node": 1, "cpus": "4-7"}]},
        volumes={**VOLUMES, "database": "nas:/export/database"},
        controller=accounting,
    )
    options = read_options(described)
    found = own_seats(described, options.place.machines, ("here",))
    assert [(machine.name, seat and seat.cpus) for machine, seat in found] == [
        ("ctl", (0, 1)),
        ("dbd", (4, 5, 6, 7)),
        ("login-1", (2, 3)),
    ]
    asked = demands(described, options, "here")[:2]
    assert [(each.machines, each.cpus, each.memory_mib, each.cells) for each in asked] == [
        (2, 2, 2048 + 256, {0: (0, 1, 2, 3)}),
        (1, 4, 8192 + 256, {1: (4, 5, 6, 7)}),
    ]


@pytest.mark.parametrize(
    ("controller", "own", "key", "lacking"),
    [
        ({"login_machines": 2}, {"cells": [{"node": 0, "cpus": "0-3"}]}, "cells", "login-2"),
        ({"login_machines": 0, "accounting": {}}, {"pci_devices": ["3b:00.0"]}, "pci_devices", "dbd"),
    ],
)
def test_an_own_machine_that_its_host_has_no_more_for_is_told_before_anything_is_made(
    controller: dict[str, Any], own: dict[str, Any], key: str, lacking: str
) -> None:
    volumes = {**VOLUMES, **({"database": "nas:/d"} if "accounting" in controller else {})}
    found = mistakes_of(mapping(machines=own, controller=controller, volumes=volumes))
    assert list(found) == [f"{OWN}.machines.{key}"]
    assert f"for {lacking} its host has no more" in found[f"{OWN}.machines.{key}"]


@given(
    cells=st.lists(st.integers(1, 8), max_size=3),
    devices=st.integers(0, 4),
    hosts=st.integers(1, 3),
    machines=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4)), max_size=6, unique_by=lambda m: m[0]),
)
def test_machines_that_are_not_alike_have_nothing_of_a_host_together(
    cells: list[int], devices: int, hosts: int, machines: list[tuple[int, int]]
) -> None:
    starts = [sum(cells[:node]) for node in range(len(cells))]
    offering = Offering(
        cells=tuple(
            Cell(node=node, cpus=tuple(range(start, start + size)))
            for node, (start, size) in enumerate(zip(starts, cells, strict=True))
        ),
        pci_devices=tuple(f"0000:3b:00.{number}" for number in range(devices)),
    )
    names = [f"host-{number}" for number in range(hosts)]
    found = seats(offering, names, machines)
    seated = [(machine, each) for machine, each in zip(machines, found, strict=True) if each is not None]
    for what in ("cpus", "pci"):
        taken = [(each.host, one) for _, each in seated for one in getattr(each, what)]
        assert len(taken) == len(set(taken))
    for (number, cpus), each in seated:
        assert each.host == names[(number - 1) % hosts]
        assert len(each.cpus) == (cpus if cells else 0)
        assert len(each.pci) == (1 if devices else 0)
    if not cells and not devices:
        assert None not in found


def test_the_cluster_that_the_page_shows_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs/infrastructures/libvirt.md").read_text()
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    described = ClusterSpec.model_validate(yaml.safe_load(shown)["config"]["cluster:spec"])
    options = read_options(described)
    assert options.hosts_of(options.offerings["gpu", "libvirt"]) == ("alpha",)


def test_the_page_has_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs/infrastructures/libvirt.md").read_text()
    for model in (SiteOptions, Offering):
        for name, field in model.model_fields.items():
            assert f"`{field.alias or field.validation_alias or name}`" in page


def test_a_cluster_whose_own_machines_are_elsewhere_says_the_place_apart() -> None:
    described = mapping({"virtualization": "qemu"})
    described["controller"], described["infrastructures"] = (
        {},
        {"libvirt": {"volumes": {"home": "nas:/home"}}},
    )
    described["fleets"][0]["infrastructures"].insert(0, "local")
    options = read_options(ClusterSpec.model_validate(described))
    assert options.place.volumes == {"home": "nas:/home"}
    assert options.offerings["cpu", "libvirt"].virtualization == "qemu"
    described["infrastructures"] = {"libvirt": {"pool": "srv"}}
    described["fleets"][0]["infrastructures"][1]["options"]["cpu"] = "fast"
    assert set(mistakes_of(described)) == {
        "infrastructures.libvirt.pool",
        "fleets[0].infrastructures[1].options.cpu",
    }


def test_two_offerings_of_one_fleet_are_told_apart_by_their_keys() -> None:
    described = mapping({"virtualization": "qemu"})
    described["fleets"][0]["infrastructures"].append({"name": "libvirt", "offering": "fast"})
    offerings = read_options(ClusterSpec.model_validate(described)).offerings
    assert {at: each.virtualization for at, each in offerings.items()} == {
        ("cpu", "libvirt"): "qemu",
        ("cpu", "libvirt/fast"): "kvm",
    }


def test_a_pool_is_a_fleet_of_the_infrastructure_that_it_names_and_is_refused_by_those_without_roles() -> (
    None
):
    described = mapping()
    pool = {"name": "both", "subnet": "10.77.20.0/24", "machines": 2, "shape": {"cpus": 1, "memory": "1GiB"}}
    described["kubernetes"] = {"kubeconfig": "/etc/kubeconfig"}
    described["pools"] = [
        {**pool, "infrastructure": {"name": "libvirt", "options": {"disk": "9GiB"}}},
        {**pool, "name": "there", "subnet": "10.77.21.0/24", "infrastructure": "nomad"},
    ]
    described["infrastructures"] = {"nomad": {}}
    read = read_spec(described)
    assert read_options(read).offerings["both", "libvirt"].disk_mib == 9 << 10
    assert (read.pool_infrastructure(read.pools[0]), "nomad" in read.infrastructure_names) == (
        "libvirt",
        True,
    )
    (refused,) = pool_mistakes(read, "nomad", "machines of Nomad")
    assert (refused.path, "take no roles" in refused.message) == ("pools[1].infrastructure", True)
    assert list(pool_mistakes(read, "libvirt")) == []


@pytest.mark.parametrize("key", ["pci_devices", "sriov_network"])
def test_a_machine_with_a_device_of_its_hosts_cannot_be_suspended(key: str) -> None:
    warm = {"name": "warm", "fleet": "cpu", "nodes": 0, "suspended": 1}
    described = {**mapping({key: TUNED[key]}), "scaling": {"policies": [warm]}}
    (where, words), *rest = mistakes_of(described).items()
    assert rest == []
    assert where.endswith(f"options.{key}")
    assert "cannot be suspended" in words
