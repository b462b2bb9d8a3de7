"""A real slurmdbd that two clusters share: what is each one's own, and who may take it away."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.slurm.database import accounted, joined
from tests.clients.slurm.real import RealSlurm, eventually, free_port
from tests.provider.calls import Calls, plainly
from tidepool.clients.here import Here
from tidepool.clients.slurm import sharers
from tidepool.clients.slurm.accounting import Accounting, Quality
from tidepool.provider import accounting, databases
from tidepool.resources.kind import Refusal

pytestmark = pytest.mark.slow

OWN, OTHER = "contract", "biology"
CONTROLLERS = {name: {"kind": "local", "stack": name, "machine": "ctl"} for name in (OWN, OTHER)}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, RealSlurm]]:
    folder = tmp_path_factory.mktemp("shared")
    for name in (OWN, OTHER):
        (folder / name).mkdir()
    with accounted(folder / OWN) as own, joined(folder / OTHER, own, OTHER) as other:
        for each in (own, other):
            eventually(Accounting(Here(each.environment), OWN).clusters, lambda found: all(found.values()))
        yield {OWN: own, OTHER: other}


@pytest.fixture
def data(clusters: Mapping[str, RealSlurm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder whose controllers are those of the clusters."""
    for module in (accounting, databases):
        monkeypatch.setattr(
            module, "transport", lambda connection, _: Here(clusters[connection["stack"]].environment)
        )
    monkeypatch.setattr(accounting, "_FRESH_S", 0.0)
    return tmp_path


def of(cluster: str, **more: Any) -> dict[str, Any]:
    return {"controller": CONTROLLERS[cluster], "cluster": cluster, **more}


def created(calls: Calls, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    answer = calls.create(calls.checked(inputs))
    assert answer.resource_id is not None
    return answer.resource_id, plainly(answer.properties)


def test_accounts_of_one_name_are_each_their_own(data: Path, clusters: Mapping[str, RealSlurm]) -> None:
    calls = Calls(data, "tidepool:slurm:Account")
    own, own_state = created(
        calls,
        of(OWN, account="teaching", description="of contract", limits={"MaxJobs": "5"}, users={"root": {}}),
    )
    other, state = created(
        calls,
        of(OTHER, account="teaching", description="of biology", limits={"MaxJobs": "7"}, users={"root": {}}),
    )
    changed = {**state, "limits": {"MaxJobs": "9"}, "description": "of biology, still"}
    calls.update(other, state, changed)
    for cluster, id, known in ((OWN, own, own_state), (OTHER, other, changed)):
        read = plainly(calls.read(id, known, known).properties)
        assert read["limits"] == known["limits"], cluster
    calls.delete(other, changed)
    read = plainly(calls.read(own, own_state, own_state).properties)
    assert {key: read[key] for key in ("limits", "users")} == {
        "limits": {"MaxJobs": "5"},
        "users": {"root": {}},
    }
    described = clusters[OWN].command(["sacctmgr", "-Pn", "show", "account", "format=Account,Descr"]).stdout
    assert "teaching|of contract" in described


def test_a_quality_of_service_is_one_clusters(data: Path, clusters: Mapping[str, RealSlurm]) -> None:
    calls = Calls(data, "tidepool:slurm:Qos")
    made, state = created(
        calls, {"controller": CONTROLLERS[OWN], "qos": "urgent", "limits": {"Priority": "9"}}
    )
    theirs = {
        "controller": CONTROLLERS[OTHER],
        "qos": "urgent",
        "cluster": OTHER,
        "limits": {"Priority": "1"},
    }
    with pytest.raises(Refusal, match="urgent is another cluster's"):
        calls.create(calls.checked(theirs))
    # An `up` that was killed in between has made no more of it than this.
    half = Accounting(Here(clusters[OTHER].environment), OTHER)
    half.add_quality(Quality("nightly").of_cluster(OTHER))
    id, other = created(calls, {**theirs, "qos": "nightly"})
    assert half.qualities()["nightly"].limits == {"Priority": "1"}
    # Whose stack comes up again finds what it has made, and nobody else's.
    created(calls, other)
    with pytest.raises(Refusal, match="nightly is another cluster's"):
        created(calls, {"controller": CONTROLLERS[OWN], "qos": "nightly"})
    read = plainly(calls.read(made, state, state).properties)
    assert read["limits"] == {"Priority": "9"}
    calls.delete(id, other)


def test_slurmdbd_is_asked_before_slurmctld_begins(
    data: Path, clusters: Mapping[str, RealSlurm], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = dict(line.split("=", 1) for line in clusters[OTHER].conf.read_text().splitlines() if "=" in line)
    monkeypatch.setattr(databases, "_CONF", str(data / "accounting.conf"))
    calls = Calls(data, "tidepool:slurm:DatabaseClient")

    def create(munged: Path, **more: Any) -> None:
        monkeypatch.setattr(databases, "ACCOUNTING_SOCKET", str(munged / "munge.socket"))
        inputs = {
            "network": "127.0.0.0/16",
            "host": "127.0.0.1",
            "key": "a2V5",
            "port": int(said["AccountingStoragePort"]),
        }
        # Its check would look for a stack on this machine.
        calls.create(of(OTHER, **{**inputs, **more}))

    own, other = clusters[OWN].folder, clusters[OTHER].folder
    create(own)
    with pytest.raises(Refusal, match="does not take the key"):
        create(other)
    with pytest.raises(Refusal, match="does not answer as a slurmdbd"):
        create(own, port=free_port())
    # By its addresses it is told from another of its name.
    with pytest.raises(Refusal, match=f"a cluster {OTHER} is registered .* at 127.0.0.1"):
        create(own, network="10.79.0.0/16")


def test_a_slurmdbd_that_another_uses_stays(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(data, "tidepool:slurm:DatabaseServer")
    # Its controller is at the third address of its network; nobody is at the other's.
    used, unused = {OTHER: "127.0.0.0/24"}, {"chemistry": "127.0.1.0/24"}
    shared = {"server": CONTROLLERS[OWN], "cluster": OWN, "sharedWith": {**used, **unused}}
    id, state = created(calls, shared)
    with socket.create_server(("127.0.0.2", 0)) as slurmctld:
        monkeypatch.setattr(sharers, "SLURMCTLD_PORT", slurmctld.getsockname()[1])
        calls.update(id, state, {**state, "sharedWith": used}, preview=True)
        for left in (unused, {**unused, OTHER: "127.0.2.0/24"}):
            with pytest.raises(Refusal, match=f"is used by {OTHER}"):
                calls.update(id, state, {**state, "sharedWith": left}, preview=True)
        with pytest.raises(Refusal, match=f"is used by {OTHER}"):
            calls.delete(id, state)
    calls.update(id, state, {**state, "sharedWith": unused}, preview=True)
    calls.delete(id, state)
