"""Mistakes are told to people before anything is made: what, where, what is allowed, the remedy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.whole.cluster import Cluster
from tidepool.infrastructures.local import kernel

pytestmark = pytest.mark.slow


@pytest.fixture
def never_up(images: Path, tmp_path: Path) -> Cluster:
    return Cluster.make(tmp_path, images, "bad")


def _nothing_was_made(cluster: Cluster) -> None:
    assert kernel.list_machines(cluster.data, cluster.stack) == ()
    assert kernel.list_networks(cluster.data, cluster.stack) == ()


def test_five_mistakes_are_five_lines_each_with_key_value_and_remedy(never_up: Cluster) -> None:
    fleet = never_up.spec["fleets"][0]
    fleet["max_nodez"] = 9
    fleet["shape"]["memory"] = "12 parsecs"
    fleet["name"] = "9-lives!"
    never_up.spec["network"] = "8.8.0.0/16"
    never_up.spec["partitions"][0]["fleets"] = ["gpu"]
    said = never_up.refused("up", "--yes")
    for told in (
        "max_nodez",
        "max_nodes",
        "12 parsecs",
        "9-lives!",
        "8.8.0.0/16",
        "10.0.0.0/8",
        "partitions[0]",
        "gpu",
    ):
        assert told in said, f"{told} is not in\n{said}"
    _nothing_was_made(never_up)


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda s: s.update(fleet=[]), ["fleet", "fleets"], id="unknown-key"),
        pytest.param(
            lambda s: s["fleets"][0].update(subnet="10.78.0.0/24"), ["10.78.0.0/24", "subnet"], id="overlap"
        ),
        pytest.param(lambda s: s["fleets"][0].update(name="ALL"), ["ALL", "name"], id="name-slurm-refuses"),
        pytest.param(
            lambda s: s.update(slurm_conf={"SchedularType": "x"}),
            ["SchedularType", "SchedulerType"],
            id="key",
        ),
        pytest.param(lambda s: s.update(image="debian-99"), ["debian-99", "image"], id="unknown-image"),
    ],
)
def test_one_mistake_is_told_with_its_remedy(never_up: Cluster, change: Change, told: list[str]) -> None:
    change(never_up.spec)
    said = never_up.refused("up", "--yes")
    assert [word for word in told if word not in said] == [], said
    _nothing_was_made(never_up)


def test_a_fleet_beyond_the_machines_memory_is_a_warning_with_the_sums(never_up: Cluster) -> None:
    never_up.spec["fleets"][0]["shape"] = {"cpus": 1, "memory": "900GiB"}
    never_up.write_spec()
    done = never_up.run("preview")
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "921600" in said, said
    assert "warning" in said.lower()


def test_a_range_in_use_is_told_before_anything_is_made(never_up: Cluster) -> None:
    """In a network namespace of the test's own, whose routes hold the range."""
    never_up.write_spec()
    busy = "ip link add busy0 type dummy; ip addr add 10.78.3.1/16 dev busy0; ip link set busy0 up"
    done = never_up.run(
        "preview", through=("unshare", "--net", "sh", "-c", f'ip link set lo up; {busy}; exec "$0" "$@"')
    )
    said = done.stdout + done.stderr
    assert "10.78.0.0/16" in said, said
    assert "busy0" in said, said


def test_a_missing_package_is_told_with_the_command_that_installs_it(
    never_up: Cluster, tmp_path: Path
) -> None:
    never_up.write_spec()
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("nsenter", "cc", "gcc"):
        (bare / name).symlink_to("/usr/bin/" + name)
    done = never_up.run("up", "--yes", PATH=str(bare))
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "apt-get install iproute2" in said, said
    assert "Traceback" not in said
    _nothing_was_made(never_up)


@pytest.mark.skipif(os.geteuid() != 0, reason="it takes root away, so it needs it")
def test_no_root_is_told_with_its_remedy(never_up: Cluster) -> None:
    never_up.write_spec()
    # Nobody, who may read everything: the project's folder is the tests' own.
    reads = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *reads, "--")
    done = never_up.run("up", "--yes", through=nobody)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "root" in said, said
    assert "sudo" in said, said
    assert "Traceback" not in said, said
    _nothing_was_made(never_up)
