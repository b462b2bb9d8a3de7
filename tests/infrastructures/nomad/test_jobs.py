"""What the jobs of a cluster say to Nomad: where they run, in which order they start, how a change comes and goes back."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tidepool.cluster.boot import Folder, Mount, Service
from tidepool.infrastructures.nomad.jobs import Home, container_job, fleet_job, munge_job, own_job
from tidepool.infrastructures.nomad.jobspec import Job, written
from tidepool.infrastructures.nomad.machine import UNLIMITED, Machine, MachineFile
from tidepool.infrastructures.nomad.options import Container, Offering, SiteOptions

SECOND = 1_000_000_000
PLACE = SiteOptions(
    interface="eth0",
    hosts={"ctl": "alpha", "ctlbackup": "beta"},
    volumes={"home": "/shared/home", "slurmctld": "/shared/slurmctld"},
    namespace="physics",
    node_pool="hpc",
)
HOME = Home("dev", PLACE, 16)
MUNGED = Service("munged", ("/usr/sbin/munged",), "munge", ready="unix:/run/munge/munge.socket.2")
KEY = MachineFile("/etc/munge/munge.key", None, "0400", "munge", "munge", is_base64=True)
MUNGE = Machine((MUNGED,), (KEY,), folders=(Folder("/run/munge", owner="munge", group="munge"),))
SLURMD = Service("slurmd", ("/usr/sbin/slurmd", "-D", "-Z"), ready="tcp:6818")
SSHD = Service("sshd", ("/usr/sbin/sshd", "-D"), ready="tcp:2222")
NODE = Machine(
    (SLURMD, SSHD),
    (MachineFile("/etc/hosts", "127.0.0.1 localhost\n"),),
    mounts=(Mount("/shared/home", "/home", read_only=False),),
)
SLURMCTLD = Service(
    "slurmctld",
    ("/usr/sbin/slurmctld", "-D"),
    ready="tcp:6817",
    stop_timeout_s=20,
    begins="path:/etc/slurm/slurm.conf",
)
CONTROLLER = Machine((SSHD, SLURMCTLD), live=(MachineFile("/etc/slurm/slurm.conf", None),))
SEATS = {"ctl": "10.77.0.2", "ctlbackup": "10.77.0.3"}


def spoken(job: Job) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(written(job))["Job"]
    return told


def constraints(group: dict[str, Any]) -> list[str]:
    return [f"{each['LTarget']} {each['Operand']} {each['RTarget']}".strip() for each in group["Constraints"]]


def fleet(**offering: Any) -> dict[str, Any]:
    return spoken(fleet_job(HOME, "cpu", NODE, Offering.model_validate(offering), MUNGED))


def texts(group: dict[str, Any], task: str) -> dict[str, str]:
    (found,) = (each for each in group["Tasks"] if each["Name"] == task)
    return {each["DestPath"]: each["EmbeddedTmpl"] for each in found["Templates"]}


def test_munge_and_slurmd_are_system_jobs_on_distinct_hosts_and_slurmctld_is_a_service() -> None:
    munge, ctl = spoken(munge_job(HOME, MUNGE)), spoken(own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED))
    assert (munge["ID"], munge["Type"]) == ("dev-munge", "system")
    assert (fleet()["ID"], fleet()["Type"]) == ("dev-slurmd-cpu", "system")
    assert (ctl["ID"], ctl["Type"]) == ("dev-slurm-ctl", "service")
    for job in (munge, fleet()):
        assert "distinct_hosts true" in constraints(job["TaskGroups"][0])
    for job in (munge, ctl, fleet()):
        assert (job["Namespace"], job["NodePool"], job["Meta"]) == (
            "physics",
            "hpc",
            {"tidepool_stack": "dev"},
        )


def test_each_controller_has_its_host_and_its_static_port() -> None:
    ctl = spoken(own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED))
    assert {group["Name"]: constraints(group) for group in ctl["TaskGroups"]} == {
        "ctl": ["${node.unique.name} = alpha"],
        "ctlbackup": ["${node.unique.name} = beta"],
    }
    (network,) = ctl["TaskGroups"][0]["Networks"]
    ports = {port["Value"] for port in network["ReservedPorts"]}
    assert (network["Mode"], ports) == ("host", {6817, 2222})


def test_a_fleet_is_a_constraint_of_metadata() -> None:
    (group,) = fleet(attributes={"image": "debian-12", "rack": ["r1", "r2"], "attr.cpu.arch": "amd64"})[
        "TaskGroups"
    ]
    assert constraints(group) == [
        "${meta.tidepool_stack} = dev",
        "${meta.tidepool_fleet} = cpu",
        "${meta.image} = debian-12",
        "${meta.rack} set_contains_any r1,r2",
        "${attr.cpu.arch} = amd64",
        "distinct_hosts true",
    ]


def test_a_nodes_name_and_address_are_its_hosts_metadata() -> None:
    (group,) = fleet()["TaskGroups"]
    for task in group["Tasks"][1:]:
        assert task["Env"] == {
            "MACHINE": "${meta.tidepool_node}",
            "ADDRESS": "${meta.tidepool_address}/16",
            "INTERFACE": "eth0",
        }


def test_daemons_start_when_munged_is_ready_and_the_machine_is_made() -> None:
    """A prestart task that ends, and one that stays; the others are main ones, and wait for the one before."""
    (group,) = fleet()["TaskGroups"]
    assert [(each["Name"], each.get("Lifecycle")) for each in group["Tasks"]] == [
        ("after-munged", {"Hook": "prestart", "Sidecar": False}),
        ("machine", {"Hook": "prestart", "Sidecar": True}),
        ("slurmd", None),
        ("sshd", None),
    ]
    assert "wait_for unix:/run/munge/munge.socket.2" in texts(group, "after-munged")["local/wait"]
    assert 'test -e "$place/made"' in texts(group, "slurmd")["local/run"]
    assert "wait_for tcp:6818" in texts(group, "sshd")["local/run"]


def test_a_command_that_runs_once_is_before_the_daemon_that_needs_it() -> None:
    install = Service("database", ("/bin/sh", "-ec", "install"), "mysql", once=True)
    database = Machine((install, Service("mariadbd", ("/usr/sbin/mariadbd",), "mysql")))
    (group,) = spoken(own_job(HOME, "ctl", database, {"ctl": "10.77.0.2"}, MUNGED))["TaskGroups"]
    assert [each["Name"] for each in group["Tasks"]] == ["after-munged", "machine", "mariadbd"]
    run = texts(group, "mariadbd")["local/run"]
    assert run.index("-ec install") < run.index("exec nsenter")
    assert "setpriv --reuid mysql" in run


def test_a_change_comes_host_by_host_and_goes_back_when_one_is_not_well() -> None:
    (group,) = fleet(roll_out={"max_parallel": 4, "canary_percent": 5, "min_healthy_s": 20})["TaskGroups"]
    assert group["Update"] == {
        "MaxParallel": 4,
        "Canary": 5,
        "AutoPromote": False,
        "AutoRevert": True,
        "HealthCheck": "checks",
        "MinHealthyTime": 20 * SECOND,
        "HealthyDeadline": 180 * SECOND,
        "ProgressDeadline": 360 * SECOND,
        "Stagger": 30 * SECOND,
    }
    checks = [check for service in group["Services"] for check in service["Checks"]]
    assert {service["Name"] for service in group["Services"]} == {
        "dev-slurmd-cpu-slurmd",
        "dev-slurmd-cpu-sshd",
    }
    assert {service["Provider"] for service in group["Services"]} == {"nomad"}
    assert {check["Type"] for check in checks} == {"tcp"}


def test_munged_has_no_port_and_is_well_when_it_runs() -> None:
    (group,) = spoken(munge_job(HOME, MUNGE))["TaskGroups"]
    assert group["Update"]["HealthCheck"] == "task_states"
    assert "Services" not in group


def test_a_controller_has_no_canary_for_its_port_is_taken() -> None:
    for group in spoken(own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED))["TaskGroups"]:
        assert (group["Update"]["Canary"], group["Update"]["AutoRevert"]) == (0, True)


def test_nobody_opens_the_port_of_slurmctld_to_say_nothing() -> None:
    """A backup controller waits for each that does, and answers nobody else."""
    for group in spoken(own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED))["TaskGroups"]:
        sshd, slurmctld = group["Services"]
        assert ("Checks" in sshd, "Checks" in slurmctld) == (True, False)
        # The port is taken all the same.
        assert [port["Value"] for port in group["Networks"][0]["ReservedPorts"]] == [2222, 6817]
    alone = spoken(own_job(HOME, "ctl", Machine((SLURMCTLD,)), SEATS, MUNGED))
    assert {group["Update"]["HealthCheck"] for group in alone["TaskGroups"]} == {"task_states"}


def test_the_munge_key_is_in_no_specification_and_another_one_starts_munged_anew() -> None:
    (group,) = spoken(munge_job(HOME, MUNGE))["TaskGroups"]
    (munged,) = (each for each in group["Tasks"] if each["Name"] == "munged")
    (key,) = (each for each in munged["Templates"] if each["DestPath"].startswith("secrets/"))
    assert key["EmbeddedTmpl"] == (
        '{{ with nomadVar "nomad/jobs/dev-munge" }}{{ .etc_munge_munge_key.Value | base64Decode }}{{ end }}'
    )
    assert (key["ChangeMode"], key["Perms"]) == ("restart", "0600")
    assert "-m 0400 -o munge -g munge" in texts(group, "munged")["local/install"]


def test_another_slurm_conf_is_read_by_a_slurmctld_that_runs() -> None:
    group = spoken(own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED))["TaskGroups"][1]
    (slurmctld,) = (each for each in group["Tasks"] if each["Name"] == "slurmctld")
    (conf,) = (each for each in slurmctld["Templates"] if each["DestPath"].startswith("secrets/"))
    assert 'nomadVar "nomad/jobs/dev-slurm-ctl/ctlbackup"' in conf["EmbeddedTmpl"]
    assert conf["ChangeMode"] == "script"
    assert conf["ChangeScript"]["Args"] == ["local/changed"]
    assert "kill -HUP" in texts(group, "slurmctld")["local/changed"]
    assert slurmctld["KillTimeout"] == 20 * SECOND
    # sshd does not begin with it, and is not told.
    assert "local/changed" not in texts(group, "sshd")


def test_jobs_of_slurm_outlive_slurmds_task() -> None:
    (group,) = fleet()["TaskGroups"]
    assert "cgroup.procs" in texts(group, "slurmd")["local/run"]
    assert "cgroup.procs" not in texts(group, "sshd")["local/run"]


def test_a_container_beside_slurm_is_a_service_on_a_host_or_on_all_hosts_of_a_fleet() -> None:
    one = Container(name="exporter", image="exporter:1", host="alpha", port=9341, http_path="/metrics")
    job = spoken(container_job(HOME, one))
    (group,) = job["TaskGroups"]
    assert (job["ID"], job["Type"], constraints(group)) == (
        "dev-exporter",
        "service",
        ["${node.unique.name} = alpha"],
    )
    assert group["Services"][0]["Checks"][0]["Path"] == "/metrics"
    assert group["Tasks"][0]["Config"]["image"] == "exporter:1"
    everywhere = Container(name="agent", image="agent:1", driver="podman", fleet="cpu")
    job = spoken(container_job(HOME, everywhere))
    assert job["Type"] == "system"
    assert "${meta.tidepool_fleet} = cpu" in constraints(job["TaskGroups"][0])
    assert job["TaskGroups"][0]["Tasks"][0]["Driver"] == "podman"


def test_the_same_machine_is_the_same_specification() -> None:
    assert written(munge_job(HOME, MUNGE)) == written(munge_job(HOME, MUNGE))


@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no sh")
def test_all_scripts_are_right_to_a_shell() -> None:
    jobs = [
        munge_job(HOME, MUNGE),
        own_job(HOME, "ctl", CONTROLLER, SEATS, MUNGED),
        fleet_job(HOME, "cpu", NODE, Offering(), MUNGED),
    ]
    scripts = [
        template.text
        for job in jobs
        for group in job.groups
        for task in group.tasks
        for template in task.templates
        if template.text.startswith("#!/bin/sh")
    ]
    assert len(scripts) > 10
    for script in scripts:
        checked = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr + script


@pytest.mark.parametrize(
    ("of", "limit", "none"),
    [
        ("4:memory:/nomad/a.slurmctld", "memory/nomad/a.slurmctld/memory.limit_in_bytes", "-1"),
        ("0::/nomad.slice/a.slurmctld.scope", "nomad.slice/a.slurmctld.scope/memory.max", "max"),
    ],
    ids=["v1", "v2"],
)
def test_a_daemon_has_the_memory_of_its_host_and_not_what_its_task_reserves(
    of: str, limit: str, none: str, tmp_path: Path
) -> None:
    """Nomad has a raw_exec task killed that takes more: mariadbd never came up, and slurmctld would not for long."""
    (tmp_path / "mine").write_text(f"8:pids:/\n{of}\n")
    file = tmp_path / limit
    file.parent.mkdir(parents=True)
    file.write_text("67108864\n")
    lifts = UNLIMITED.replace("/proc/self/cgroup", f"{tmp_path}/mine").replace(
        "/sys/fs/cgroup", str(tmp_path)
    )
    subprocess.run(["sh", "-euc", lifts], check=True)
    assert file.read_text() == f"{none}\n"
