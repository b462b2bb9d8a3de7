"""What lasts of a cluster at AWS: the state of its controllers, its accounting, and /home."""

from __future__ import annotations

import json

from tests.infrastructures.aws.graph import (
    ARRIVES,
    ATTACHMENT,
    EFS,
    INSTANCE,
    LEAVES,
    LUSTRE,
    TARGET,
    VERSION,
    VOLUME,
    registered,
    told,
)
from tests.infrastructures.aws.specs import GIVEN, OTHER_ZONE, ZONE, spec


def test_the_controllers_state_is_on_a_disk_that_outlives_its_machine() -> None:
    graph = registered(spec(controller={"accounting": {}}))
    state, database = graph[f"{VOLUME} slurmctld"], graph[f"{VOLUME} database"]
    assert state.inputs == {
        "availabilityZone": ZONE,
        "size": 8,
        "type": "gp3",
        "encrypted": True,
        "tags": {"Name": "tidepool-dev-slurmctld", "tidepool:stack": "dev"},
    }
    assert not state.depends_on & set(graph.of_type(INSTANCE))
    # Years of accounting outlive the stack, too.
    assert (state.retain_on_delete, database.retain_on_delete) == (False, True)
    attachment = graph[f"{ATTACHMENT} ctl"]
    assert attachment.by_input["volumeId"] == {f"{VOLUME} slurmctld"}
    assert attachment.by_input["instanceId"] == {f"{INSTANCE} ctl"}
    assert attachment.inputs["stopInstanceBeforeDetaching"] is True
    assert attachment.delete_before_replace
    assert set(graph.of_type(ATTACHMENT)) == {"ctl", "dbd"}
    assert f"{VOLUME} slurmctld" in graph[f"{VERSION} ctl"].by_input["secretString"]


def test_two_controllers_share_their_state_and_are_in_two_zones() -> None:
    graph = registered(spec(controller={"backup": True}))
    assert f"{VOLUME} slurmctld" not in graph.resources
    assert f"{EFS} slurmctld" in graph.resources
    assert not graph.of_type(ATTACHMENT)
    assert graph[f"{INSTANCE} ctl"].inputs["subnetId"] == f"{ZONE}-id"
    assert graph[f"{INSTANCE} ctlbackup"].inputs["subnetId"] == f"{OTHER_ZONE}-id"


def test_home_is_a_file_system_that_each_zone_reaches_and_nothing_takes_away() -> None:
    graph = registered(spec())
    home = graph[f"{EFS} home"]
    assert home.retain_on_delete
    assert set(graph.of_type(TARGET)) == {f"home@{ZONE}", f"home@{OTHER_ZONE}"}
    assert graph[f"{TARGET} home@{ZONE}"].inputs["securityGroups"] == ["files-id"]
    assert "mount -t nfs4" in json.dumps(told(graph, "cpu"))
    assert "fs-home.efs.eu-central-1.amazonaws.com:/ /home" in json.dumps(told(graph, "cpu"))


def test_home_may_be_lustre_with_rules_for_its_servers() -> None:
    graph = registered(spec(home="lustre", lustre={"storage_gib": 2400, "throughput": 250}))
    system = graph[f"{LUSTRE} home"]
    assert system.retain_on_delete
    assert system.inputs["storageCapacity"] == 2400
    assert system.inputs["perUnitStorageThroughput"] == 250
    assert system.inputs["subnetIds"] == f"{ZONE}-id"
    assert "files-from-node-tcp-988-988" in graph.of_type(ARRIVES)
    assert "files-to-node-tcp-988-988" in graph.of_type(LEAVES)
    assert "mount -t lustre" in json.dumps(told(graph, "cpu"))
    assert "files-from-node-tcp-988-988" not in registered(spec()).of_type(ARRIVES)


def test_home_may_be_a_file_server_of_somebody_else() -> None:
    graph = registered(spec(home="nas:/export/home", given=GIVEN))
    assert not graph.of_type(EFS)
    assert "mount -t nfs -o rw,hard nas:/export/home /home" in json.dumps(told(graph, "cpu"))
