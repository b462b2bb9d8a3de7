"""Which machines have the key of a slurmdbd that clusters share, and what stands beside it in the graph."""

from __future__ import annotations

import base64
from typing import Any

import pulumi
import pytest

from tests.components.stack import answers, of_one_image, spec_with
from tidepool.cluster.accounting import ACCOUNTING_KEY, ACCOUNTING_SOCKET
from tidepool.components import AccountTree, ComputeFleet, SlurmController
from tidepool.infrastructures.local.graph import Local
from tidepool.testing import Graph, register

BOOT, MACHINE = "tidepool:local:Boot", "tidepool:local:Machine"
KEY = base64.b64encode(bytes(range(128))).decode()
SHARED = {"shared_with": [{"cluster": "biology", "network": "10.81.0.0/16"}]}


def graph(accounting: dict[str, Any], key: str | None = None, **changes: Any) -> Graph:
    spec = spec_with(controller={"accounting": accounting}, **changes)

    def program() -> None:
        controller = SlurmController(
            spec.name, locations=of_one_image(spec, Local("dev")), accounting_key=key
        )
        AccountTree(spec.name, controller=controller)
        ComputeFleet("cpu", controller=controller, nodes="cpu-1")

    return register(program, answers)


def keys(graph: Graph, boot: str) -> dict[str, str]:
    """The munge keys of a boot, by path."""
    files = graph[f"{BOOT} {boot}"].inputs["files"]
    return {path: each["content"] for path, each in files.items() if path.startswith("/etc/munge/")}


def services(graph: Graph, boot: str) -> list[str]:
    return [each["name"] for each in graph[f"{BOOT} {boot}"].inputs["services"]]


def test_who_asks_has_both_keys_slurmdbd_that_of_all_and_nodes_their_own() -> None:
    shared = graph(SHARED)
    own, common = "tidepool:keys:MungeKey physics", "tidepool:keys:MungeKey physics-accounting"
    for boot in ("ctl", "login"):
        assert set(keys(shared, boot)) == {"/etc/munge/munge.key", ACCOUNTING_KEY}
        assert {own, common} <= shared[f"{BOOT} {boot}"].by_input["files"]
        assert "files" in shared[f"{BOOT} {boot}"].secrets
        (munged,) = (
            each
            for each in shared[f"{BOOT} {boot}"].inputs["services"]
            if each["name"] == "munged-accounting"
        )
        assert {f"--key-file={ACCOUNTING_KEY}", f"--socket={ACCOUNTING_SOCKET}"} <= set(munged["argv"])
    assert services(shared, "ctl").index("munged-accounting") < services(shared, "ctl").index("slurmctld")
    of_dbd = shared[f"{BOOT} dbd"]
    assert set(keys(shared, "dbd")) == {"/etc/munge/munge.key"}
    assert own not in of_dbd.by_input["files"], "slurmdbd's machine is no machine of the cluster's key"
    assert common in of_dbd.by_input["files"]
    assert "PrivateData=accounts,events,jobs" in of_dbd.inputs["files"]["/etc/slurm/slurmdbd.conf"]["content"]
    assert set(keys(shared, "cpu")) == {"/etc/munge/munge.key"}
    assert shared["tidepool:slurm:DatabaseServer physics"].inputs["sharedWith"] == {"biology": "10.81.0.0/16"}


def test_a_cluster_that_shares_nothing_has_nothing_of_it() -> None:
    alone = graph({})
    assert [name for name in alone.resources if "Database" in name or name.endswith("-accounting")] == []
    assert "munged-accounting" not in services(alone, "ctl")
    assert "PrivateData" not in alone[f"{BOOT} dbd"].inputs["files"]["/etc/slurm/slurmdbd.conf"]["content"]


def test_a_client_has_no_machine_for_it_and_is_asked_before_slurmctld_begins() -> None:
    client = graph({"host": "10.81.0.4"}, KEY, qos=[{"name": "nightly"}])
    assert "dbd" not in client.of_type(MACHINE)
    use = client["tidepool:slurm:DatabaseClient physics"]
    assert use.name in {
        each.split()[-1] for each in client["tidepool:slurm:Configuration physics"].depends_on
    }
    assert (use.inputs["host"], use.inputs["port"], use.inputs["qos"]) == ("10.81.0.4", 6819, ["nightly"])
    assert "key" in use.secrets
    assert keys(client, "ctl")[ACCOUNTING_KEY] == KEY
    assert client["tidepool:slurm:Qos nightly"].inputs["cluster"] == "physics"
    assert not [each for each in client.resources.values() if KEY in str(each.inputs) and not each.secrets]
    assert all(
        each.delete_before_replace
        for name, each in client.of_type(MACHINE).items()
        if name in ("ctl", "login-1")
    )


@pytest.mark.parametrize(
    ("key", "said"), [(None, "is missing"), ("c2hvcnQ=", "32 bytes"), ("no base64", "32 bytes")]
)
def test_a_key_that_is_none_is_told_with_where_it_is_from(key: str | None, said: str) -> None:
    with pytest.raises(pulumi.RunError, match=f"{said}.*output accountingKey .* cluster:accountingKey"):
        graph({"host": "10.81.0.4"}, key)
