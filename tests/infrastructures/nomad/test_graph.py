"""What a cluster on Nomad registers: types, inputs, parents, dependencies, secrets, and what a change comes to."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from tests.infrastructures.nomad.graph import (
    ACCESS,
    ANSWERS,
    CLUSTER,
    JOB,
    MACHINE,
    PROVIDER,
    ROLL_OUT,
    VARIABLE,
    job,
    registered,
)
from tests.infrastructures.nomad.specs import mapping, spec
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.registry import infrastructures_of

FLEET = "tidepool:components:ComputeFleet cpu"
CONTROLLER = "tidepool:components:SlurmController physics"


def changed(before: ClusterSpec, after: ClusterSpec, **more: Any) -> set[str]:
    """What an `up` from one to the other would look at again."""
    old, new = registered(before), registered(after, **more)
    assert set(old.resources) == set(new.resources)
    return {name for name in old.resources if old[name].inputs != new[name].inputs}


def test_all_of_nomad_that_a_cluster_is() -> None:
    graph = registered(spec())
    assert {name: parent for name, parent in graph.children.items() if "nomad" in name} == {
        f"{CLUSTER} nomad": "",
        f"{PROVIDER} nomad": "",
        f"{VARIABLE} munge@keys": CONTROLLER,
        f"{ROLL_OUT} munge": CONTROLLER,
        f"{JOB} munge": CONTROLLER,
        f"{VARIABLE} ctl@keys": CONTROLLER,
        f"{VARIABLE} ctl@live": CONTROLLER,
        f"{JOB} slurm-ctl": CONTROLLER,
        f"{VARIABLE} login@keys": CONTROLLER,
        f"{JOB} slurm-login": CONTROLLER,
        f"{VARIABLE} munge-cpu@keys": FLEET,
        f"{ROLL_OUT} munge-cpu": FLEET,
        f"{JOB} munge-cpu": FLEET,
        f"{VARIABLE} cpu@keys": FLEET,
        f"{ROLL_OUT} slurmd-cpu": FLEET,
        f"{JOB} slurmd-cpu": FLEET,
        f"{MACHINE} cpu-1": FLEET,
        f"{MACHINE} cpu-2": FLEET,
    }


def test_urns_are_what_they_were() -> None:
    """Another name or type here is another job for everybody who has one: give it an alias."""
    graph = registered(spec())
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet"
    assert graph[f"{JOB} slurmd-cpu"].urn == f"{above}${JOB}::slurmd-cpu"
    assert graph[f"{MACHINE} cpu-1"].urn == f"{above}${MACHINE}::cpu-1"
    assert graph[f"{VARIABLE} cpu@keys"].urn == f"{above}${VARIABLE}::cpu@keys"


def test_nothing_is_made_before_nomad_is_known_to_have_what_is_asked_of_it() -> None:
    graph = registered(spec({"attributes": {"rack": "r1"}}))
    assert graph[f"{PROVIDER} nomad"].depends_on == {f"{CLUSTER} nomad"}
    for type in (JOB, VARIABLE):
        assert {graph[f"{type} {name}"].provider for name in graph.of_type(type)} == {f"{PROVIDER} nomad"}
    asked = graph[f"{CLUSTER} nomad"].inputs["demands"]
    assert (asked["stack"], asked["namespace"], asked["api"]) == (
        "dev",
        "default",
        {"address": "http://127.0.0.1:4646"},
    )
    assert asked["demands"] == [
        {
            "path": "controller.infrastructure.options.hosts.ctl",
            "host": "alpha",
            "ports": [6817, 2222],
        },
        {
            "path": "controller.infrastructure.options.hosts.login-1",
            "host": "beta",
            "ports": [2222],
        },
        {
            "path": "fleets[0].infrastructures[0].options.attributes",
            "count": 0,
            "constraints": [{"left": "${meta.rack}", "right": "r1"}],
        },
    ]


def test_jobs_are_json_are_purged_and_services_are_waited_for() -> None:
    graph = registered(spec())
    for name in graph.of_type(JOB):
        inputs = graph[f"{JOB} {name}"].inputs
        assert (inputs["json"], inputs["purgeOnDestroy"], inputs["rerunIfDead"]) == (True, True, True)
        # A fleet may have hundreds of hosts, some at a time; a service that is not well fails the `up`.
        assert inputs["detach"] is not name.startswith("slurm-")


def test_munged_is_a_job_before_those_that_need_it_and_a_node_comes_after_its_job() -> None:
    graph = registered(spec())
    assert f"{JOB} munge" in graph[f"{JOB} slurm-ctl"].depends_on
    assert f"{JOB} munge-cpu" in graph[f"{JOB} slurmd-cpu"].depends_on
    machine = graph[f"{MACHINE} cpu-1"]
    assert machine.by_input["jobs"] == {f"{JOB} slurmd-cpu"}
    assert machine.replace_with == {"tidepool:slurm:Slots cpu"}
    answers = graph[f"{ANSWERS} cpu-1"]
    assert answers.by_input == {"machine": {f"{MACHINE} cpu-1"}, "access": {f"{ACCESS} ssh@machines"}}
    assert graph["tidepool:slurm:Node cpu-1"].by_input["machine"] == {f"{ANSWERS} cpu-1"}
    # The cluster's own machines are jobs, and are there when they answer.
    assert graph[f"{ANSWERS} ctl"].by_input["machine"] == {f"{JOB} slurm-ctl"}


def test_a_system_job_waits_for_a_look_at_its_last_roll_out_and_services_are_waited_for_themselves() -> None:
    graph = registered(spec())
    assert set(graph.of_type(ROLL_OUT)) == {"munge", "munge-cpu", "slurmd-cpu"}
    for name in graph.of_type(ROLL_OUT):
        assert f"{ROLL_OUT} {name}" in graph[f"{JOB} {name}"].depends_on
    assert graph[f"{ROLL_OUT} slurmd-cpu"].inputs["job"] == "dev-slurmd-cpu"


def test_a_node_is_a_host_that_is_given_its_name_its_fleet_and_its_address() -> None:
    graph = registered(spec({"attributes": {"rack": ["r1", "r2"]}}, node_pool="hpc", datacenters=["lugano"]))
    assert graph[f"{MACHINE} cpu-2"].inputs == {
        "api": {"address": "http://127.0.0.1:4646"},
        "namespace": "default",
        "stack": "dev",
        "machine": "cpu-2",
        "fleet": "cpu",
        "address": "10.77.10.2",
        "constraints": ["${meta.rack} set_contains_any r1,r2"],
        "drivers": ["raw_exec"],
        "datacenters": ["lugano"],
        "nodePool": "hpc",
        "jobs": ["dev-munge-cpu", "dev-slurmd-cpu"],
    }
    assert len(json.dumps(graph[f"{MACHINE} cpu-2"].inputs)) < 1024


def test_machines_answer_at_a_port_that_is_not_the_hosts() -> None:
    graph = registered(spec())
    assert graph[f"{ACCESS} ssh@machines"].inputs["port"] == 2222
    assert graph[f"{ANSWERS} cpu-1"].inputs["port"] == 2222
    (sshd,) = (each for each in job(graph, "slurmd-cpu")["TaskGroups"][0]["Tasks"] if each["Name"] == "sshd")
    run = next(each["EmbeddedTmpl"] for each in sshd["Templates"] if each["DestPath"] == "local/run")
    # Nomad's checks, one in five seconds, stay open until then.
    assert "-o LoginGraceTime=30 -o MaxStartups=100" in run
    assert "-f /dev/null -p 2222" in run
    assert "PasswordAuthentication=no" in run


def test_slurmd_asks_the_controllers_for_its_configuration() -> None:
    (slurmd,) = (
        each
        for each in job(registered(spec()), "slurmd-cpu")["TaskGroups"][0]["Tasks"]
        if each["Name"] == "slurmd"
    )
    run = next(each["EmbeddedTmpl"] for each in slurmd["Templates"] if each["DestPath"] == "local/run")
    assert "/usr/sbin/slurmd -D -b --conf-server ctl" in run


def test_keys_are_only_written_and_in_no_other_input() -> None:
    graph = registered(spec(), munge_key="bXkgc2VjcmV0")
    for name, each in graph.resources.items():
        if "nomad" not in name:
            continue
        if name.endswith("@keys"):
            assert each.secrets == {"itemsWo"}
        else:
            assert "bXkgc2VjcmV0" not in str(each.inputs), name
            assert "PRIVATE" not in str(each.inputs), name
    munge = graph[f"{VARIABLE} munge@keys"].inputs
    assert json.loads(munge["itemsWo"]) == {"etc_munge_munge_key": "bXkgc2VjcmV0"}
    # A job reads what is below its id, and nobody else's.
    assert munge["path"] == "nomad/jobs/dev-munge"


def test_another_munge_key_is_another_version_of_variables_and_no_job_is_touched() -> None:
    names = changed(spec(), spec(), munge_key="YW5vdGhlcg==")
    assert {name for name in names if "nomad" in name} == {
        f"{VARIABLE} munge@keys",
        f"{VARIABLE} munge-cpu@keys",
    }
    one, other = (registered(spec(), munge_key=key)[f"{VARIABLE} munge@keys"] for key in ("YQ==", "Yg=="))
    assert one.inputs["itemsWoVersion"] != other.inputs["itemsWoVersion"]


def test_another_partition_is_a_variable_that_slurmctld_reads_while_it_runs() -> None:
    more = mapping()
    more["partitions"].append({"name": "second"})
    names = changed(spec(), ClusterSpec.model_validate(more))
    assert {name for name in names if "nomad" in name} == {f"{VARIABLE} ctl@live"}


def test_another_shape_is_told_to_the_controller_and_leaves_daemons_and_hosts() -> None:
    larger = mapping()
    larger["fleets"][0]["shape"]["memory"] = "8GiB"
    names = changed(spec(), ClusterSpec.model_validate(larger))
    assert {name for name in names if "nomad" in name} == {
        "nomad:index/variable:Variable ctl@live",
    }


def test_other_attributes_are_other_hosts() -> None:
    names = changed(spec(), spec({"attributes": {"rack": "r1"}}))
    assert {name for name in names if "nomad" in name} == {
        f"{CLUSTER} nomad",
        f"{ROLL_OUT} slurmd-cpu",
        f"{JOB} slurmd-cpu",
        f"{MACHINE} cpu-1",
        f"{MACHINE} cpu-2",
    }


def test_a_backup_controller_is_a_group_on_a_host_of_its_own() -> None:
    graph = registered(
        spec(hosts={"ctl": "alpha", "ctlbackup": "gamma", "login-1": "beta"}, controller={"backup": True})
    )
    assert [group["Name"] for group in job(graph, "slurm-ctl")["TaskGroups"]] == ["ctl", "ctlbackup"]
    assert {f"{VARIABLE} ctl@live", f"{VARIABLE} ctlbackup@live"} <= set(graph.resources)


def test_a_slurmctld_that_another_one_took_over_from_stays_ended_and_one_that_is_alone_does_not() -> None:
    hosts = {"ctl": "alpha", "ctlbackup": "gamma", "login-1": "beta"}
    for asked, start in (
        (spec(), 'exec nsenter --mount="$place/mnt"'),
        (spec(hosts=hosts, controller={"backup": True}), 'hold nsenter --mount="$place/mnt"'),
    ):
        for group in job(registered(asked), "slurm-ctl")["TaskGroups"]:
            (slurmctld,) = (each for each in group["Tasks"] if each["Name"] == "slurmctld")
            run = next(
                each["EmbeddedTmpl"] for each in slurmctld["Templates"] if each["DestPath"] == "local/run"
            )
            assert f"\n{start}" in run


def test_what_runs_beside_slurm_is_a_job_of_the_stack() -> None:
    exporter = {"name": "exporter", "image": "exporter:1", "host": "alpha", "port": 9341}
    agent = {"name": "agent", "image": "agent:1", "fleet": "cpu"}
    graph = registered(spec(containers=[exporter, agent]))
    assert job(graph, "exporter")["Type"] == "service"
    assert job(graph, "agent")["Type"] == "system"
    machine = graph[f"{MACHINE} cpu-1"].inputs
    assert machine["jobs"] == ["dev-munge-cpu", "dev-slurmd-cpu", "dev-agent"]
    assert machine["drivers"] == ["raw_exec", "docker"]


def test_a_token_is_of_a_file_and_secret(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOMAD_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text("s.3cret\n")
    file.chmod(0o600)
    graph = registered(spec(token_file=str(file)))
    assert graph[f"{PROVIDER} nomad"].secrets == {"secretId"}
    assert graph[f"{CLUSTER} nomad"].inputs["demands"]["api"]["tokenFile"] == str(file)
    assert all("s.3cret" not in str(graph[f"{MACHINE} {name}"].inputs) for name in graph.of_type(MACHINE))


def test_a_token_that_others_can_read_ends_the_program(tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text("s.3cret\n")
    file.chmod(0o644)
    with pytest.raises(pulumi.RunError, match=f"run: chmod 600 {file}"):
        infrastructures_of(spec(token_file=str(file)), "dev")


def test_mistakes_in_options_end_the_program_with_all_of_them_and_register_nothing() -> None:
    with pytest.raises(pulumi.RunError) as raised:
        infrastructures_of(spec({"rack": "r1"}, hosts={"ctl": "alpha"}), "dev")
    assert "2 mistakes" in str(raised.value)


def test_a_preview_of_nothing_yet_shows_all_of_it() -> None:
    assert set(registered(spec(), preview=True).resources) == set(registered(spec()).resources)
