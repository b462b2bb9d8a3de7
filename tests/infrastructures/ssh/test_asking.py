"""Hosts that are really asked, over SSH: what refuses is told at once for all of them, with the key and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.slurm.sshd import Sshd, sshd
from tests.provider.calls import Preflights
from tidepool.clients.transport import Completed
from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Note, Permanent, Transient
from tidepool.infrastructures.ssh.ask import FACTS_S, HostError, ask
from tidepool.infrastructures.ssh.preflight import PREFLIGHT, Demands, lacks_of_hosts
from tidepool.resources.kind import Home
from tidepool.resources.reading import read

__all__ = ["sshd"]  # a fixture, which pytest finds here


def way(sshd: Sshd, **changes: Any) -> Mapping[str, Any]:
    return {
        "kind": "host",
        "address": "127.0.0.1",
        "port": sshd.port,
        "user": "root",
        "key": str(sshd.key),
        "known_hosts": str(sshd.known_hosts),
        **changes,
    }


def host(path: str, connection: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    name = connection["address"]
    return {"path": path, "host": name, "cpus": 1, "memoryMib": 64, "connection": connection, **more}


def failures(tmp_path: Path, *hosts: Mapping[str, Any], **more: Any) -> list[str]:
    """What a preview says of these hosts."""
    demands = {"stack": "physics", "systems": ["debian 12"], "users": {}, "hosts": list(hosts), **more}
    return [reason for _, reason in Preflights(tmp_path, "ssh").mistakes(demands)]


def test_a_host_says_what_it_has(sshd: Sshd) -> None:
    facts = ask(way(sshd), "facts", {"users": ["root"]}, FACTS_S)
    assert facts["users"] == {"root": [0, 0]}
    assert facts["cpus"] >= 1


def test_a_host_that_refuses_says_why_and_what_mends_it(tmp_path: Path, sshd: Sshd) -> None:
    empty, changed = tmp_path / "empty", tmp_path / "changed"
    empty.write_text("")
    changed.write_text(f"[127.0.0.1]:{sshd.port} {(sshd.folder / 'other_key.pub').read_text()}")
    for kind, change, words in (
        (Permanent, {"known_hosts": str(empty)}, "none of .* is in .*ssh-keyscan -p"),
        (Permanent, {"known_hosts": str(changed)}, "installed anew, or another machine.*ssh-keygen -f .* -R"),
        (Transient, {"known_hosts": str(tmp_path / "none")}, "there is no file .* of hosts' keys"),
        (Permanent, {"key": str(sshd.other_key)}, "is not accepted of root: add its public half"),
        (Transient, {"key": str(tmp_path / "none")}, "there is no private key"),
        (Transient, {"port": 1.0, "address": "127.0.0.9"}, r"nothing answers at 127\.0\.0\.9, port 1 "),
        (Permanent, {"address": "no-such-host.invalid"}, "there is no such name no-such-host.invalid"),
    ):
        with pytest.raises(HostError, match=words) as raised:
            ask(way(sshd, **change), "facts", {}, FACTS_S)
        assert raised.value.kind is kind


def test_all_hosts_are_told_of_at_once_in_a_preview(tmp_path: Path, sshd: Sshd) -> None:
    large, closed = (
        host("fleets[0]", way(sshd), cpus=4096),
        host("machines", way(sshd, port=1, address="127.0.0.9"), isOwn=True),
    )
    refused = host("fleets[2]", way(sshd, key=str(sshd.other_key)))
    said = failures(tmp_path, large, closed, refused)
    assert any(each.startswith("fleets[0]: the host 127.0.0.1: it has") and "4096" in each for each in said)
    assert any(each.startswith("machines: the host 127.0.0.9: nothing answers") for each in said)
    assert any(each.startswith("fleets[2]: the host 127.0.0.1: the key") for each in said)


def test_a_host_of_a_fleet_that_is_down_holds_up_nobody(
    tmp_path: Path, sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = host("fleets[0]", way(sshd, port=1, address="127.0.0.9"))
    demands = {"stack": "physics", "systems": ["debian 12"], "users": {}, "hosts": [closed]}
    (noted,) = PREFLIGHT.lacks(read(Demands, demands).value, Home(tmp_path, tmp_path))
    assert isinstance(noted, Note)
    assert noted.text.startswith("fleets[0]: the host 127.0.0.9: nothing answers at 127.0.0.9, port 1")
    previews = Preflights(tmp_path, "ssh")
    said: list[str] = []
    monkeypatch.setattr(previews.calls.provider._log, "warn", lambda _, text: said.append(text))
    assert previews.mistakes(demands) == []
    assert said == [noted.text]


def test_a_host_that_refuses_and_one_of_another_cluster_are_told_together(sshd: Sshd) -> None:
    """Both are asked as they are; of the one that answers, another cluster's claim is what it says besides."""
    elsewhere = {
        "key": {"stack": "chemistry", "fleet": "cpu", "node": "cpu-7", "generation": 1},
        "state": "claimed",
    }

    def asked(connection: Mapping[str, Any], verb: str, told: Mapping[str, Any], timeout_s: float) -> Any:
        facts = ask(connection, verb, told, timeout_s)
        return {**facts, "claim": elsewhere}

    hosts = [
        host("fleets[0].hosts[0]", way(sshd)),
        host("fleets[0].hosts[1]", way(sshd, key=str(sshd.other_key))),
    ]
    demands = {"stack": "physics", "systems": ["debian 12"], "users": {}, "hosts": hosts}
    found = lacks_of_hosts(read(Demands, demands).value, asked)
    said = [f"{demand.path}: the host {demand.host}: {each}" for demand, lacks in found for each in lacks]
    assert any(
        each.startswith(
            "fleets[0].hosts[0]: the host 127.0.0.1: it is the node cpu-7 of the stack chemistry: give it back"
        )
        for each in said
    ), said
    assert any(each.startswith("fleets[0].hosts[1]: the host 127.0.0.1: the key") for each in said), said


class Reached:
    """A host that was reached, and says that."""

    where = "admin@127.0.0.1"

    def __init__(self, code: int, said: str) -> None:
        self.done = Completed(code, "", said)

    def run(self, *_: object, **__: object) -> Completed:
        return self.done

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("code", "said", "kind", "words"),
    [
        (1, "sudo: a password is required", Permanent, "root may not use sudo there without a password"),
        (127, "sh: 1: python3: not found", Transient, "there is no python3 on root@"),
        (1, "OSError: [Errno 28] No space left on device", InsufficientCapacity, "cannot be told to claim: OSError"),
        (1, "OSError: [Errno 30] Read-only file system", Permanent, "cannot be told to claim: OSError"),
        (255, "", Transient, "cannot be told to claim: it says nothing"),
    ],
)  # fmt: skip
def test_a_host_that_does_not_do_it_fails_by_a_kind(
    sshd: Sshd,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    said: str,
    kind: type[InfrastructureError],
    words: str,
) -> None:
    monkeypatch.setattr("tidepool.infrastructures.ssh.ask.transport", lambda *_: Reached(code, said))
    with pytest.raises(HostError, match=words) as raised:
        ask(way(sshd), "claim", {}, FACTS_S)
    assert raised.value.kind is kind
