"""What SlurmController registers: its machines, its keys, and a configuration that changes without them."""

from __future__ import annotations

from pathlib import Path

from pulumi.output import Unknown

from tests.cluster.specs import spec_mapping
from tests.components.stack import DIGEST, connection, registered, spec_with
from tidepool.cluster.controller_programs import (
    DOWN_PROGRAM,
    IN_CHARGE_PROGRAM,
    REQUEST_PROGRAM,
    SPOOL,
    STANDS_BY_PROGRAM,
    UP_PROGRAM,
)
from tidepool.scaling.power import request
from tidepool.testing import Graph

COMPONENT = "tidepool:components:SlurmController physics"
BOOT, MACHINE, VOLUME = "tidepool:local:Boot", "tidepool:local:Machine", "tidepool:local:Volume"
CONFIGURATION = "tidepool:slurm:Configuration physics"
MUNGE, SSH = "tidepool:keys:MungeKey physics", "tidepool:keys:SshKey physics"
ALL = {"backup": True, "accounting": {}, "login_machines": 2}
FILES_OF_KEYS = {"/etc/munge/munge.key", "/etc/ssh/authorized_keys.d/root"}


def mine(graph: Graph) -> set[str]:
    return {name for name, parent in graph.children.items() if parent == COMPONENT}


def test_a_small_cluster_is_a_controller_and_a_login_machine() -> None:
    graph = registered(spec_with())
    assert mine(graph) == {
        MUNGE,
        SSH,
        f"{VOLUME} home",
        f"{VOLUME} slurmctld",
        f"{BOOT} ctl",
        f"{BOOT} login",
        f"{MACHINE} ctl",
        f"{MACHINE} login-1",
        CONFIGURATION,
        "tidepool:slurm:Users physics",
    }


def test_backup_accounting_and_more_logins_are_machines_of_their_own() -> None:
    more = mine(registered(spec_with(controller=ALL))) - mine(registered(spec_with()))
    assert more == {
        f"{VOLUME} database",
        f"{BOOT} dbd",
        f"{MACHINE} ctlbackup",
        f"{MACHINE} dbd",
        f"{MACHINE} login-2",
    }


def test_without_login_machines_there_is_no_boot_for_them() -> None:
    graph = registered(spec_with(controller={"login_machines": 0}))
    assert set(graph.of_type(BOOT)) == {"ctl", "cpu", "gpu"}
    assert graph.outputs[COMPONENT]["logins"] == {}


def test_urns_are_what_they_were() -> None:
    """Another name or type here is a new cluster for everybody who has one: give it an alias."""
    stack, type = "urn:pulumi:dev::cluster", "tidepool:components:SlurmController"
    graph = registered(spec_with(controller=ALL))
    assert graph[COMPONENT].urn == f"{stack}::{type}::physics"
    assert {graph[name].urn.removeprefix(f"{stack}::{type}$") for name in mine(graph)} == {
        "tidepool:keys:MungeKey::physics",
        "tidepool:keys:SshKey::physics",
        "tidepool:local:Volume::home",
        "tidepool:local:Volume::slurmctld",
        "tidepool:local:Volume::database",
        "tidepool:local:Boot::ctl",
        "tidepool:local:Boot::dbd",
        "tidepool:local:Boot::login",
        "tidepool:local:Machine::ctl",
        "tidepool:local:Machine::ctlbackup",
        "tidepool:local:Machine::dbd",
        "tidepool:local:Machine::login-1",
        "tidepool:local:Machine::login-2",
        "tidepool:slurm:Configuration::physics",
        "tidepool:slurm:Users::physics",
    }


def test_machines_have_the_places_of_the_network() -> None:
    machines = registered(spec_with(controller=ALL)).of_type(MACHINE)
    assert {name: machines[name].inputs["address"] for name in machines if "pu-" not in name} == {
        "ctl": "10.77.0.2",
        "ctlbackup": "10.77.0.3",
        "dbd": "10.77.0.4",
        "login-1": "10.77.0.16",
        "login-2": "10.77.0.17",
    }
    assert machines["ctl"].inputs == {
        "stack": "dev",
        "machine": "ctl",
        "network": "net",
        "address": "10.77.0.2",
        "mac": "02:74:0a:4d:00:02",
        "image": DIGEST,
        "boot": "ctl",
        "cpus": 2,
        "memoryMib": 2048,
    }


def test_machines_wait_for_what_they_stand_on_and_no_more() -> None:
    machines = registered(spec_with(controller=ALL)).of_type(MACHINE)
    standing_on = {"tidepool:image:Image slurm", "tidepool:local:Network net"}
    assert machines["ctl"].depends_on == {*standing_on, f"{BOOT} ctl"}
    assert machines["ctlbackup"].depends_on == {*standing_on, f"{BOOT} ctl"}
    assert machines["dbd"].depends_on == {*standing_on, f"{BOOT} dbd"}
    assert machines["login-2"].depends_on == {*standing_on, f"{BOOT} login"}


def test_keys_are_secret_wherever_they_are() -> None:
    graph = registered(spec_with(controller=ALL))
    for name, boot in graph.of_type(BOOT).items():
        assert "files" in boot.secrets, name
        assert {MUNGE, SSH} <= boot.by_input["files"], name
    assert graph.secret_outputs[COMPONENT] == {"privateKey", "mungeKey"}
    for each in graph.resources.values():
        if each.type != BOOT:
            assert "munge-key" not in str(each.inputs), each.name
            assert "PRIVATE" not in str(each.inputs), each.name


def test_the_backup_has_the_state_and_the_boot_of_the_controller() -> None:
    graph = registered(spec_with(controller=ALL))
    boot = graph[f"{BOOT} ctl"]
    assert [(each["source"], each["target"], each["readOnly"]) for each in boot.inputs["mounts"]] == [
        ("/volumes/slurmctld", "/var/spool/slurmctld", False),
        ("/volumes/home", "/home", False),
    ]
    assert boot.by_input["mounts"] == {f"{VOLUME} slurmctld", f"{VOLUME} home"}
    assert [each["name"] for each in boot.inputs["services"]] == ["munged", "sshd", "slurmctld"]
    assert boot.inputs["services"][2]["begins"] == "path:/etc/slurm/slurm.conf"
    assert set(boot.inputs["files"]) == FILES_OF_KEYS | {
        "/etc/ssh/sshd_config.d/only-root.conf",
        *(UP_PROGRAM, DOWN_PROGRAM, REQUEST_PROGRAM),
        *(IN_CHARGE_PROGRAM, STANDS_BY_PROGRAM),
    }


def test_what_power_saving_calls_is_there_in_either_mode_and_no_machine_boots_for_a_change_of_it() -> None:
    slots, power = (registered(spec_with(scaling={"mode": mode})) for mode in ("slots", "power_save"))
    assert slots[f"{BOOT} ctl"].inputs == power[f"{BOOT} ctl"].inputs
    files = power[f"{BOOT} ctl"].inputs["files"]
    assert files[UP_PROGRAM]["mode"] == files[DOWN_PROGRAM]["mode"] == "0755"
    assert {"owner", "group"}.isdisjoint(files[UP_PROGRAM]), "they are root's by default"
    assert files[UP_PROGRAM]["content"].endswith(f' {REQUEST_PROGRAM} up "$@"\n')
    assert files[DOWN_PROGRAM]["content"].endswith(f' {REQUEST_PROGRAM} down "$@"\n')
    assert files[REQUEST_PROGRAM]["content"] == Path(request.__file__).read_text()
    (spool,) = (each for each in power[f"{BOOT} ctl"].inputs["folders"] if each["path"] == SPOOL)
    assert (spool["mode"], spool["owner"]) == ("0700", "slurm")
    assert UP_PROGRAM not in power[f"{BOOT} login"].inputs["files"]


def test_homes_and_the_history_outlive_the_cluster_and_the_queue_does_not() -> None:
    volumes = registered(spec_with(controller=ALL)).of_type(VOLUME)
    assert {name: volume.inputs["retain"] for name, volume in volumes.items()} == {
        "home": True,
        "database": True,
        "slurmctld": False,
    }


def test_slurmdbd_has_a_file_that_nobody_else_reads_and_no_password() -> None:
    files = registered(spec_with(controller=ALL))[f"{BOOT} dbd"].inputs["files"]
    conf = files["/etc/slurm/slurmdbd.conf"]
    assert (conf["mode"], conf["owner"], conf["group"]) == ("0600", "slurm", "slurm")
    assert "StoragePass" not in conf["content"]
    assert "unix_socket" in files["/etc/mysql/slurm.sql"]["content"]


def test_the_configuration_goes_to_who_reads_files_the_controller_first() -> None:
    configuration = registered(spec_with(controller=ALL))[CONFIGURATION]
    assert configuration.inputs["hosts"] == [
        connection(host) for host in ("ctl", "ctlbackup", "login-1", "login-2")
    ]
    assert set(configuration.inputs["files"]) == {"slurm.conf", "gres.conf", "cgroup.conf", "mpi.conf"}


def test_slurmctld_starts_when_slurmdbd_answers() -> None:
    """Its files are what starts it; before, it would end, or not register its cluster."""
    graph = registered(spec_with(controller=ALL))
    assert f"{MACHINE} dbd" in graph[CONFIGURATION].depends_on
    assert {name for name, each in graph.of_type(MACHINE).items() if "waitReady" in each.inputs} == {"dbd"}
    assert graph[f"{MACHINE} dbd"].inputs["waitReady"] is True


def test_another_slurm_conf_is_another_configuration_and_nothing_else() -> None:
    before = registered(spec_with(controller=ALL))
    partitions = [*spec_mapping()["partitions"], {"name": "night", "max_time": "8:00:00"}]
    after = registered(spec_with(controller=ALL, partitions=partitions, slurm_conf={"KillWait": 60}))
    assert set(before.resources) == set(after.resources)
    changed = {name for name in before.resources if before[name].inputs != after[name].inputs}
    assert changed == {CONFIGURATION}


def test_outputs_are_registered() -> None:
    outputs = registered(spec_with()).outputs[COMPONENT]
    assert outputs == {
        "connection": connection("ctl"),
        "logins": {"login-1": connection("login-1")},
        "publicKey": "ssh-ed25519 PUBLIC",
        "privateKey": "PRIVATE",
        "mungeKey": "munge-key",
    }


def test_a_first_preview_registers_the_same_with_unknowns() -> None:
    preview, up = (registered(spec_with(controller=ALL), preview=each) for each in (True, False))
    assert preview.children == up.children
    assert isinstance(preview[f"{BOOT} ctl"].inputs["mounts"][0]["source"], Unknown)
    files = preview[CONFIGURATION].inputs["files"]
    assert files == up[CONFIGURATION].inputs["files"]
