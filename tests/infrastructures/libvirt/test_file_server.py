"""A file server of the cluster's own on libvirt: its disk, what machines mount of it, and what a person has to say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.infrastructures.libvirt.graph import ACCESS, DOMAIN, MACHINE, SEED, registered
from tests.infrastructures.libvirt.specs import VOLUMES, mapping
from tidepool.cluster.hostlist import expand
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.libvirt.reading import read_options

STORE = "/dev/vg0/physics"


def served(**place: Any) -> ClusterSpec:
    said = mapping(volumes=place.pop("volumes", {}), **place)
    return ClusterSpec.model_validate({**said, "file_server": {}, "scratch": {}})


def test_machines_mount_all_that_they_share_of_the_server_which_has_it_on_a_disk_that_is_there() -> None:
    graph = registered(served(store=STORE))
    disks = {name: graph[f"{DOMAIN} {name}"].inputs["disks"] for name in ("nfs", "ctl")}
    assert [len(each) for each in disks.values()] == [2, 1]
    assert STORE in disks["nfs"][1].values()
    seeds = {
        name: str(graph[f"{SEED} {name}@here"].inputs["userData"]) for name in ("nfs", "ctl", "login", "cpu")
    }
    for name, volumes in {
        "ctl": {"home", "scratch", "slurmctld"},
        "login": {"home", "scratch"},
        "cpu": {"home", "scratch"},
    }.items():
        assert set(re.findall(r"10\.77\.0\.5:/(\w+)", seeds[name])) == volumes
    assert "prjquota /dev/vdb /srv" in seeds["nfs"]
    assert "10.77.0.5:/" not in seeds["nfs"]
    assert "10.77.0.5" in expand(graph[f"{ACCESS} ssh@machines"].inputs["addresses"]), "its host key is known"
    # Who mounts it is made after it, and gone before it.
    assert f"{MACHINE} nfs" in graph[f"{DOMAIN} ctl"].depends_on


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (served(), "options.store: it is missing: name the disk of the file server"),
        (
            served(store=STORE, volumes=VOLUMES),
            "options.volumes.home: the cluster's own file server has it; leave it out",
        ),
        (
            ClusterSpec.model_validate(mapping(store=STORE)),
            f"options.store = '{STORE}': there is no file_server in the spec",
        ),
    ],
)
def test_what_does_not_go_together_is_told(spec: ClusterSpec, told: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_options(spec)
    assert told in str(refused.value)
