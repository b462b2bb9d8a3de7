"""What slurm.conf says where Slurm's power saving asks for nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.specs import of_release, slots_line, spec_mapping
from tidepool.cluster import controller_programs
from tidepool.cluster.slurm_conf import slurm_conf
from tidepool.cluster.slurm_releases import RELEASES, Release
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec
from tidepool.scaling.power import request

MODE = {"mode": "power_save"}


def spec_of(**changes: Any) -> ClusterSpec:
    return read_spec(spec_mapping(**changes))


def added(**changes: Any) -> set[str]:
    """The lines that slurm.conf has more in this mode."""
    power = slurm_conf(spec_of(scaling=MODE, **changes)).splitlines()
    return {line for line in power if not line.startswith("#")} - set(
        slurm_conf(spec_of(**changes)).splitlines()
    )


def test_slurm_calls_programs_that_only_write_it_down_and_each_fleet_has_its_idle_time() -> None:
    fleets = spec_mapping()["fleets"]
    fleets[0] |= {"min_nodes": 2, "idle_timeout_s": 90}
    fleets[1] |= {"min_nodes": 0, "idle_timeout_s": 0}
    power = spec_of(scaling=MODE, fleets=fleets)
    assert added(fleets=fleets) == {
        "SlurmctldParameters=enable_configless,idle_on_node_suspend,power_save_interval=1",
        "ResumeProgram=/usr/local/lib/tidepool/power-up",
        "SuspendProgram=/usr/local/lib/tidepool/power-down",
        "ResumeFailProgram=/usr/local/lib/tidepool/power-down",
        "ResumeTimeout=300",
        "SuspendTimeout=30",
        "ResumeRate=0",
        "SuspendRate=0",
        "SuspendTime=INFINITE",
        "SuspendExcNodes=cpu-[1-2]",
        "PrivateData=cloud",
        slots_line(power, "cpu"),
        slots_line(power, "gpu"),
        "PartitionName=tidepool_cpu Nodes=ns_cpu Hidden=yes RootOnly=yes State=UP SuspendTime=90",
        "PartitionName=tidepool_gpu Nodes=ns_gpu Hidden=yes RootOnly=yes State=UP SuspendTime=1",
    }


def test_slots_are_in_the_cloud() -> None:
    slots, power = spec_of(), spec_of(scaling=MODE)
    assert " State=FUTURE " in slots_line(slots, "cpu")
    assert " State=CLOUD " in slots_line(power, "cpu")


def test_what_a_person_adds_to_lists_does_not_take_away_what_is_needed() -> None:
    conf = {"SlurmctldParameters": "power_save_interval=5,cloud_dns", "PrivateData": "jobs"}
    lines = added(slurm_conf=conf)
    assert (
        "SlurmctldParameters=enable_configless,power_save_interval=5,cloud_dns,idle_on_node_suspend" in lines
    )
    assert "PrivateData=jobs,cloud" in lines


def test_slurm_waits_longer_for_nodes_than_the_scaler_does() -> None:
    for boot_timeout_s, resume_timeout in ((60, 300), (600, 2400), (100_000, 65_533)):
        spec = spec_of(scaling={**MODE, "boot_timeout_s": boot_timeout_s})
        assert f"ResumeTimeout={resume_timeout}\n" in slurm_conf(spec)


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_knows_the_keys(release: Release) -> None:
    assert "SuspendTime" in slurm_conf(of_release(spec_of(scaling=MODE), release))


def test_nodes_of_a_tree_cannot_be_in_the_cloud() -> None:
    with pytest.raises(SpecError, match="with `topology: tree` only `slots` can be"):
        spec_of(scaling=MODE, topology="tree")


def test_people_leave_its_keys_and_the_names_of_its_partitions_alone() -> None:
    for key in ("ResumeProgram", "SuspendProgram", "SuspendTime", "SuspendExcNodes"):
        with pytest.raises(SpecError, match=key):
            spec_of(scaling=MODE, slurm_conf={key: "1"})
    with pytest.raises(SpecError, match="partitions of Tidepool's own"):
        spec_of(partitions=[{"name": "Tidepool_cpu"}])


def test_the_program_and_slurm_conf_mean_the_same_folder() -> None:
    assert request.SPOOL == controller_programs.SPOOL
