"""Slurm's files: what is written, what Slurm reads of it, and which options are refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.specs import of_release, spec_mapping, with_pool
from tidepool.cluster.hostlist import HostSet
from tidepool.cluster.slurm_conf import (
    cgroup_conf,
    configuration,
    gres_conf,
    slurm_conf,
    topology_conf,
)
from tidepool.cluster.slurm_keys import CGROUP_CONF, PARTITION_LINE, SLURM_CONF
from tidepool.cluster.slurm_options import PROTECTED, check_slurm_conf, setting
from tidepool.cluster.slurm_releases import RELEASES, Release
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError, read_spec

FULL: dict[str, Any] = {
    "controller": {"backup": True, "accounting": {"enforce": ["limits", "qos"]}},
    "topology": "tree",
    "process_tracking": "cgroup",
    "limits": {"max_nodes": 100},
}


def spec_of(**changes: Any) -> ClusterSpec:
    return read_spec(spec_mapping(**changes))


def settings_of(text: str) -> dict[str, str]:
    """The settings that stand on a line of their own."""
    return dict(line.split("=", 1) for line in text.splitlines() if re.fullmatch(r"\w+=\S+", line))


def test_slurm_conf_is_this_text() -> None:
    text = slurm_conf(spec_of())
    without_why = "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))
    assert (
        without_why
        == """\
ClusterName=physics
SlurmctldParameters=enable_configless
AuthType=auth/munge
AuthInfo=cred_expire=10
SlurmdParameters=config_overrides
MaxNodeCount=1024
ReturnToService=2
TreeWidth=65533
SlurmdTimeout=30
SlurmctldTimeout=10
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,lic
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,sched_interval=1,bf_interval=1,bf_resolution=1,\
default_queue_depth=1000
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup,task/affinity
JobAcctGatherType=jobacct_gather/linux
PrologFlags=Contain
KillOnBadExit=1
MailProg=/bin/true
SlurmUser=slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmctldHost=ctl(10.77.0.2)
NodeName=cpu-[1-16] NodeAddr=10.77.10.[1-16] State=FUTURE CPUs=4 Sockets=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4096 Feature=cpu,std
NodeName=gpu-[1-300] NodeAddr=10.77.12.[1-255],10.77.13.[0-44] State=FUTURE CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000 Feature=gpu Gres=gpu:a100:2,lic:3
NodeSet=ns_cpu Feature=cpu
NodeSet=ns_gpu Feature=gpu
PartitionName=main Nodes=ALL Default=yes MaxTime=UNLIMITED State=UP
PartitionName=gpu Nodes=ns_gpu Default=no MaxTime=1-00:00:00 State=UP PriorityTier=10"""
    )


def test_the_other_files_are_these_texts() -> None:
    spec = spec_of(**FULL)
    body = {name: text.splitlines()[1:] for name, text in configuration(spec).items()}
    assert list(body) == ["slurm.conf", "gres.conf", "cgroup.conf", "mpi.conf", "topology.conf"]
    assert body["gres.conf"] == [
        "NodeName=gpu-[1-300] Name=gpu Type=a100 File=/dev/nvidia[0-1]",
        "NodeName=gpu-[1-300] Name=lic Count=3",
    ]
    assert body["cgroup.conf"][1:] == [
        "CgroupPlugin=autodetect",
        "IgnoreSystemd=yes",
        "ConstrainCores=yes",
        "ConstrainRAMSpace=yes",
        "ConstrainSwapSpace=yes",
        "ConstrainDevices=yes",
    ]
    assert body["topology.conf"] == [
        "SwitchName=sw_cpu Nodes=cpu-[1-16]",
        "SwitchName=sw_gpu Nodes=gpu-[1-300]",
        "SwitchName=sw_root Switches=sw_cpu,sw_gpu",
    ]
    assert topology_conf(spec_of()) is None
    written = settings_of(slurm_conf(spec))
    assert written["AccountingStorageEnforce"] == "limits,qos"
    assert written["AccountingStorageHost"] == "10.77.0.4"
    assert "SlurmctldHost=ctl(10.77.0.2)\nSlurmctldHost=ctlbackup(10.77.0.3)\n" in slurm_conf(spec)
    on_a_pool = read_spec(with_pool() | {"controller": {"runs_on": "shared-2"}})
    assert "SlurmctldHost=shared-2(10.77.20.2)\nSlurmctldHost=ctl(10.77.0.2)\n" in slurm_conf(on_a_pool)
    # An AccountingStorageEnforce with nothing to enforce would end slurmctld.
    assert "AccountingStorageEnforce" not in slurm_conf(spec_of(controller={"accounting": {}}))


@pytest.mark.parametrize(
    "given",
    [
        spec_mapping(controller={"backup": True}),
        with_pool() | {"controller": {"runs_on": "shared-2"}},
    ],
)
def test_one_that_stands_by_is_started_anew_once_it_was_in_charge_where_its_release_needs_that(
    given: dict[str, Any],
) -> None:
    key = "SlurmctldPrimaryOffProg"
    own = {"slurm_conf": {key: "/own"}}

    def set_by(**changes: Any) -> str | None:
        return settings_of(slurm_conf(read_spec(given | changes))).get(key)

    assert set_by() == "/usr/local/lib/tidepool/slurmctld-stands-by"
    with pytest.raises(SpecError, match=r"before 23[.]11"):
        set_by(**own)
    later = of_release(read_spec(given), "23.11")
    assert settings_of(slurm_conf(later)).get(key) is None
    assert settings_of(slurm_conf(of_release(later, "23.11", **own)))[key] == "/own"
    assert key not in settings_of(slurm_conf(spec_of(controller={"accounting": {}})))


def test_slots_are_in_slurm_conf_where_slurmctld_would_lose_created_ones() -> None:
    assert "NodeName=" in slurm_conf(spec_of())
    assert "NodeName=" not in slurm_conf(of_release(spec_of(), "24.11"))
    assert "NodeName=" in slurm_conf(of_release(spec_of(topology="tree"), "24.11"))


def test_nodes_above_a_lowered_maximum_have_lines_until_they_are_drained() -> None:
    spec = spec_of(topology="tree")
    before = configuration(spec)
    nodes = {"cpu": HostSet("cpu-[1-2,77]"), "gpu": HostSet("gpu-[1,500]")}
    after = configuration(spec, nodes)
    changed = {
        (name, line)
        for name, text in after.items()
        for line in text.splitlines()
        if line not in before[name].splitlines()
    }
    assert {(name, line.partition(" ")[0]) for name, line in changed} == {
        ("slurm.conf", "NodeName=cpu-[1-16,77]"),
        ("slurm.conf", "NodeName=gpu-[1-300,500]"),
        ("gres.conf", "NodeName=gpu-[1-300,500]"),
        ("topology.conf", "SwitchName=sw_cpu"),
        ("topology.conf", "SwitchName=sw_gpu"),
    }
    assert "NodeAddr=10.77.10.[1-16,77] " in after["slurm.conf"]
    assert configuration(spec, {"cpu": HostSet("cpu-[1-2]")}) == before


def test_a_person_s_options_override_and_those_that_tidepool_needs_stay() -> None:
    options = {
        "slurmdtimeout": 60,
        "KillWait": 5,
        "SlurmctldParameters": "idle_on_node_suspend",
        "DebugFlags": "NodeFeatures,Power",
        "UnkillableStepProgram": "/bin/echo gone",
        "DisableRootJobs": True,
    }
    text = slurm_conf(spec_of(slurm_conf=options))
    written = settings_of(text)
    assert written["SlurmdTimeout"] == "60"
    assert written["SlurmctldParameters"] == "enable_configless,idle_on_node_suspend"
    assert '\nUnkillableStepProgram="/bin/echo gone"\n' in text
    assert text.count("SlurmdTimeout=") == 1
    own = text.partition("# From slurm_conf of the spec.\n")[2].partition("\n\n")[0].splitlines()
    assert own[:3] == ["DebugFlags=NodeFeatures,Power", "DisableRootJobs=yes", "KillWait=5"]


@pytest.mark.parametrize(
    ("places", "said", "confined"),
    [
        (["local"], {}, True),
        (["local", "kubernetes"], {}, False),
        (["local"], {"process_tracking": "linuxproc"}, False),
        (["aws", "libvirt", "local", "ssh"], {}, True),
        (["kubernetes"], {"process_tracking": "cgroup"}, True),
    ],
)
def test_jobs_are_confined_and_bound_where_all_nodes_can(
    places: list[str], said: dict[str, Any], confined: bool
) -> None:
    entries = [{"name": each} for each in places]
    fleets = [{**spec_mapping()["fleets"][0], "infrastructures": entries}]
    written = settings_of(slurm_conf(spec_of(fleets=fleets, partitions=[{"name": "main"}], **said)))
    assert (written["ProctrackType"] == "proctrack/cgroup") is confined
    assert written["TaskPlugin"] == ("task/cgroup,task/affinity" if confined else "task/none")


def test_options_of_cgroup_conf_count_with_cgroups_only() -> None:
    options = {"constraincores": False, "AllowedRAMSpace": 95.5}
    assert cgroup_conf(spec_of(process_tracking="cgroup", cgroup_conf=options)).splitlines()[2:] == [
        "CgroupPlugin=autodetect",
        "IgnoreSystemd=yes",
        "ConstrainCores=no",
        "ConstrainRAMSpace=yes",
        "ConstrainSwapSpace=yes",
        "ConstrainDevices=yes",
        "AllowedRAMSpace=95.5",
    ]
    without = spec_of(process_tracking="linuxproc", cgroup_conf=options)
    assert "CgroupPlugin=disabled" in cgroup_conf(of_release(without, "24.05"))
    assert cgroup_conf(without).splitlines()[2:] == ["CgroupPlugin=cgroup/v1"]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("full", [False, True])
def test_every_key_is_known_to_every_release(release: Release, full: bool) -> None:
    spec = of_release(spec_of(**(FULL if full else {})), release)
    assert configuration(spec) == configuration(of_release(spec_of(**(FULL if full else {})), release))
    for key in settings_of(slurm_conf(spec)):
        assert release in SLURM_CONF[key.lower()].releases


@pytest.mark.parametrize(
    ("release", "key", "value", "said"),
    [
        ("22.05", "SlurmdTimout", 1, "the nearest that it knows is SlurmdTimeout"),
        ("22.05", "Frobnicate", 1, "no release of Slurm from 22.05 to 26.05 knows Frobnicate in slurm.conf"),
        (
            "24.05",
            "PowerPlugin",
            "x",
            "Slurm 24.05 has no PowerPlugin in slurm.conf any more, 23.11 was the last",
        ),
        (
            "22.05",
            "HASHPLUGIN",
            "x",
            "Slurm 22.05 does not know HashPlugin in slurm.conf yet, 24.05 is the first",
        ),
        (
            "22.05",
            "KillWait",
            "soon",
            "KillWait is 'soon', and can be a whole number from 0 to 65535, or UNLIMITED",
        ),
        ("22.05", "KillWait", 65536, "KillWait is '65536', and can be"),
        ("22.05", "KillWait", -1, "KillWait is '-1', and can be"),
        ("22.05", "TrackWCKey", "maybe", "TrackWCKey is 'maybe', and can be yes or no"),
        ("22.05", "Prolog", "/a\nNodeName=x", "'\\n' in its value, which Slurm's files cannot hold"),
        ("22.05", "Prolog", '/a" b', "'\"' in its value"),
        ("22.05", "Prolog", "/a # b", "'#' in its value"),
        ("22.05", "Prolog", "/a\\", "'\\\\' in its value"),
        ("22.05", "Prolog", "", "Prolog has no value"),
        ("22.05", "SlurmctldParameters", "a,cloud_reg_addrs", "it lets go of NodeAddr when a node stops"),
        ("22.05", "AccountingStorageEnforce", "none", "slurmctld of 22.05 dies of it"),
        (
            "22.05",
            "nodename",
            "a",
            "nodename is not for a person to set: nodes are slots that Tidepool creates",
        ),
        ("22.05", "SuspendProgram", "/bin/true", "behind the scaler's back"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_the_reason(
    release: Release, key: str, value: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check_slurm_conf(release, key, value)


def test_what_is_protected_is_a_key() -> None:
    assert set(PROTECTED) <= set(SLURM_CONF)
    for key in PROTECTED:
        with pytest.raises(ValueError, match="not for a person to set"):
            check_slurm_conf("22.05", key, "1")


def test_settings_are_in_slurm_s_spelling() -> None:
    assert (
        setting(PARTITION_LINE, "a partition's line", "22.05", "OVERSUBSCRIBE", "yes") == "OverSubscribe=yes"
    )
    assert setting(SLURM_CONF, "slurm.conf", "22.05", "killwait", "unlimited") == "KillWait=unlimited"
    assert setting(CGROUP_CONF, "cgroup.conf", "22.05", "allowedramspace", 90) == "AllowedRAMSpace=90"


@pytest.mark.parametrize("full", [False, True])
def test_slurm_reads_it_without_a_complaint(full: bool, tmp_path: Path) -> None:
    program = shutil.which("scontrol")
    if program is None:
        pytest.skip("Slurm is not installed: no `scontrol` on PATH")
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=test\nSlurmctldHost=localhost\n")
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    command = [program, "--version"]
    version = subprocess.run(command, check=True, env=environment, capture_output=True, text=True).stdout
    release = ".".join(version.split()[1].split(".")[:2])
    if release not in RELEASES:
        pytest.skip(f"Slurm {release} is not among those that Tidepool knows")
    for name, text in configuration(of_release(spec_of(**(FULL if full else {})), release)).items():
        (tmp_path / name).write_text(text)
    ran = subprocess.run(
        [program, "show", "hostnames", "a[1-2]"], check=False, env=environment, capture_output=True, text=True
    )
    assert (ran.stdout, ran.stderr) == ("a1\na2\n", "")


def test_gres_conf_without_gres_is_its_heading_only() -> None:
    fleets = [spec_mapping()["fleets"][0]]
    spec = spec_of(fleets=fleets, partitions=[{"name": "main"}])
    assert gres_conf(spec).count("\n") == 1
    assert "GresTypes" not in slurm_conf(spec)
    assert "Default=yes" in slurm_conf(spec)


def test_with_accounts_what_they_say_is_enforced_and_shares_decide() -> None:
    accounts = {"controller": {"accounting": {}}, "accounts": [{"name": "physics"}]}
    written = settings_of(slurm_conf(spec_of(**accounts)))
    assert written["AccountingStorageEnforce"] == "associations,limits,qos"
    assert written["PriorityType"] == "priority/multifactor"
    assert "PreemptType" not in written
    own = {
        **accounts,
        "controller": {"accounting": {"enforce": ["nojobs"]}},
        "slurm_conf": {"PriorityWeightAge": 5},
    }
    written = settings_of(slurm_conf(spec_of(**own, qos=[{"name": "urgent", "preempts": ["normal"]}])))
    assert (written["AccountingStorageEnforce"], written["PriorityWeightAge"]) == ("nojobs", "5")
    assert (written["PreemptType"], written["PreemptMode"]) == ("preempt/qos", "REQUEUE")
