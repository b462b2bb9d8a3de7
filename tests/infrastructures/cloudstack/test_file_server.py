"""A file server of the cluster's own on CloudStack: its volume, who mounts what of it, and what a person has to say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.cloudstack.specs import VOLUMES, spec
from tests.infrastructures.cloudstack.test_graph import OURS, registered
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.cloudstack.graph import _mounting
from tidepool.infrastructures.cloudstack.reading import read_options
from tidepool.infrastructures.cloudstack.volume import serial_of

STORE: dict[str, Any] = {"volumes": {}, "file_server": {}, "store": {"size": "200GiB"}}


def test_machines_mount_all_that_they_share_of_the_server_which_has_it_on_a_volume() -> None:
    graph = registered(spec(**STORE))
    volume = graph[f"{OURS}Volume store"]
    assert {key: volume.inputs[key] for key in ("name", "sizeGib", "offering")} == {
        "name": "tidepool-dev-store",
        "sizeGib": 200,
        "offering": "Custom",
    }
    id = graph[f"{OURS}Machine nfs"].inputs["volume"]
    assert "store" in id
    assert not graph[f"{OURS}Machine ctl"].inputs.get("volume")
    told = {name: str(graph[f"{OURS}UserData {name}"].inputs["content"]) for name in ("nfs", "ctl", "cpu")}
    assert set(re.findall(r"10\.77\.0\.5:/(\w+)", told["ctl"])) == {"home", "slurmctld"}
    assert set(re.findall(r"10\.77\.0\.5:/(\w+)", told["cpu"])) == {"home"}
    assert f"/dev/disk/by-id/*{serial_of(id)}" in told["nfs"]
    # Who mounts it is made after it, and gone before it.
    assert f"{OURS}Machine nfs" in graph[f"{OURS}Machine ctl"].depends_on or any(
        name.endswith("Machine nfs") for name in graph[f"{OURS}Machine ctl"].depends_on
    )


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            {**STORE, "store": None},
            "options.store: it is missing: write how large the file server's volume is",
        ),
        ({**STORE, "volumes": VOLUMES}, "options.volumes.home: the cluster's own file server has it"),
        ({"store": {"size": "200GiB"}}, "options.store: there is no file_server in the spec"),
        (
            {**STORE, "store": {"size": 5}},
            "options.store.size = 5: it should be greater than or equal to 1024",
        ),
    ],
)
def test_what_does_not_go_together_is_told(place: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_options(spec(**place))
    assert said in str(refused.value)


def test_a_disk_is_waited_for_found_by_its_number_and_formatted_once(tmp_path: Path) -> None:
    """The lines that its machine runs at a boot, with a file in the disk's place, which comes a second later."""
    source = f"{tmp_path}/scsi-0QEMU_QEMU_HARDDISK_0123456789abcdef0123"
    lines = _mounting(f"/dev/disk/by-id/*{serial_of('01234567-89ab-cdef-0123-456789abcdef')}", "/srv", "rw")
    script = "\n".join(['say() { echo "$@"; }', *lines]).replace("/dev/disk/by-id/", f"{tmp_path}/")
    for name in ("mount", "resize2fs"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/done\n')
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    made = subprocess.Popen(["sh", "-c", f"sleep 1; truncate -s 64M {source}"])
    told = subprocess.run(["sh", "-eu", "-c", script], env=env, capture_output=True, text=True, check=True)
    made.wait()
    assert "waits for its disk" in told.stdout
    before = subprocess.run(
        ["blkid", "-p", "-o", "value", "-s", "UUID", source], capture_output=True, text=True, check=True
    ).stdout
    subprocess.run(["sh", "-eu", "-c", script], env=env, capture_output=True, check=True)
    after = subprocess.run(
        ["blkid", "-p", "-o", "value", "-s", "UUID", source], capture_output=True, text=True, check=True
    ).stdout
    assert before == after, "what is on it stays"
    assert (tmp_path / "done").read_text().splitlines()[0] == f"mount -t ext4 -o rw,prjquota {source} /srv"
