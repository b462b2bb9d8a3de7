"""Machines that are reached by SSH: keys kept for root alone, and a machine that is there when it answers."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.clients.slurm.sshd import Sshd, sshd
from tests.provider.calls import Calls, plainly
from tidepool.clients.slurm import Unreachable
from tidepool.infrastructures.connection import ssh_folder, transport
from tidepool.provider.ssh import SshMachineKind
from tidepool.resources.declarations import SshMachineModel
from tidepool.resources.kind import Home, Refusal, Task

__all__ = ["sshd"]  # a fixture, which pytest finds here

ACCESS, MACHINE = "tidepool:ssh:Access", "tidepool:ssh:Machine"
UNREACHABLE = SshMachineModel(
    machine="id", stack="dev", address="127.0.0.1", user="root", access="dev", port=1
)


def access_to(sshd: Sshd) -> dict[str, Any]:
    return {
        "stack": "dev",
        "privateKey": sshd.key.read_text(),
        "hostKey": (sshd.folder / "host_key.pub").read_text(),
        "addresses": "127.0.0.[1-3]",
        "port": sshd.port,
    }


def machine_at(sshd: Sshd) -> dict[str, Any]:
    named = {"machine": "uuid-of-a-domain", "stack": "dev", "address": "127.0.0.1", "user": "root"}
    return {**named, "port": sshd.port, "access": "dev"}


def test_a_machine_that_answers_is_there_and_what_it_says_of_itself_leads_to_it(
    tmp_path: Path, sshd: Sshd
) -> None:
    accesses, machines = Calls(tmp_path, ACCESS), Calls(tmp_path, MACHINE)
    accesses.create(accesses.checked(access_to(sshd)))
    made = machines.create(machines.checked(machine_at(sshd)))
    connection = plainly(made.properties)["connection"]
    assert connection == {
        "kind": "ssh",
        "stack": "dev",
        "address": "127.0.0.1",
        "user": "root",
        "port": sshd.port,
    }
    reached = transport(connection, tmp_path)
    try:
        assert reached.run(["echo", "it is", "here"], timeout_s=10).stdout == "it is here\n"
        # By the connection over which it was waited for.
        assert sshd.logins() == 1
    finally:
        reached.close()


def test_keys_are_for_root_alone_and_gone_with_the_access(tmp_path: Path, sshd: Sshd) -> None:
    accesses = Calls(tmp_path, ACCESS)
    inputs = access_to(sshd)
    id = accesses.create(accesses.checked(inputs)).resource_id
    assert id == "dev"
    folder = ssh_folder(tmp_path, "dev")
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {
        "key": 0o600,
        "known_hosts": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "known_hosts").read_text().startswith(f"[127.0.0.1]:{sshd.port},[127.0.0.2]:")
    assert accesses.read(id, inputs, inputs).resource_id == id
    (folder / "key").write_text("of somebody else")
    assert not accesses.read(id, inputs, inputs).resource_id
    accesses.update(id, inputs, inputs)
    assert accesses.read(id, inputs, inputs).resource_id == id
    accesses.delete(id, inputs)
    accesses.delete(id, inputs)
    assert not folder.exists()


def test_more_addresses_are_an_update(tmp_path: Path, sshd: Sshd) -> None:
    accesses, inputs = Calls(tmp_path, ACCESS), access_to(sshd)
    more = {**inputs, "addresses": "127.0.0.[1-9]"}
    assert not accesses.diff(inputs, more).replaces
    accesses.update("dev", inputs, more)
    assert "[127.0.0.9]" in (ssh_folder(tmp_path, "dev") / "known_hosts").read_text()


def test_a_machine_that_shows_another_key_is_not_the_one(tmp_path: Path, sshd: Sshd) -> None:
    accesses = Calls(tmp_path, ACCESS)
    other = {**access_to(sshd), "hostKey": (sshd.folder / "other_key.pub").read_text()}
    accesses.create(accesses.checked(other))
    reached = transport({**_plain(sshd), "port": sshd.port}, tmp_path)
    with pytest.raises(Unreachable, match="host's key is not the one that is known"):
        reached.run(["true"], timeout_s=10)


def _plain(sshd: Sshd) -> dict[str, Any]:
    return {"kind": "ssh", "stack": "dev", "address": "127.0.0.1", "user": "root"}


def test_a_machine_that_does_not_answer_is_waited_for_and_then_told(tmp_path: Path) -> None:
    now = [0.0]
    said: list[str] = []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    class Clocked(Task):
        @property
        def left_s(self) -> float:
            return self.timeout_s - now[0]

    ssh_folder(tmp_path, "dev").mkdir(parents=True)
    (ssh_folder(tmp_path, "dev") / "known_hosts").touch()
    kind = SshMachineKind(Home(tmp_path, tmp_path), sleep)
    task = Clocked("urn", 5.0, 0.0, said.append, said.append, said.append)
    with pytest.raises(
        Refusal,
        match=r"127\.0\.0\.1 does not answer within 5 s: it boots.*no connection.*`tidepool up`.*more time by `boot_timeout_s`",
    ) as raised:
        kind.create(UNREACHABLE, task)
    # Its name is left alone, and after several in a row its infrastructure.
    assert raised.value.cause == "boot"
    # Once, however often it is tried: not a line for each second.
    (told,) = said
    assert "it boots, and has its address; sshd does not run yet" in told


def test_no_more_time_is_promised_where_nobody_can_give_it(tmp_path: Path) -> None:
    kind = SshMachineKind(Home(tmp_path, tmp_path))
    task = Task("urn", kind.timeout_s, 0.0, print, print, print)
    with pytest.raises(Refusal) as raised:
        kind.create(UNREACHABLE, task)
    assert str(raised.value).endswith("the next `tidepool up` goes on from here")


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"stack": "No Stack"}, "stack", "allowed are"),
        ({"hostKey": "AAAA"}, "hostKey", "one public key"),
        ({"addresses": "10.0.0.[9-1]"}, "addresses", ""),
        ({"port": 0}, "port", "at least 1"),
    ],
)
def test_what_is_no_access_is_refused(tmp_path: Path, change: dict[str, Any], key: str, words: str) -> None:
    good = {"stack": "dev", "privateKey": "k", "hostKey": "ssh-ed25519 AAAA", "addresses": "10.0.0.1"}
    accesses = Calls(tmp_path, ACCESS)
    assert accesses.failures(good) == {}
    assert words in accesses.failures({**good, **change})[key]


def test_another_domain_at_that_address_is_another_machine(tmp_path: Path) -> None:
    machines = Calls(tmp_path, MACHINE)
    one = {"machine": "a", "stack": "dev", "address": "10.0.0.1", "user": "root", "access": "dev"}
    assert machines.diff(one, {**one, "machine": "b"}).replaces == ["machine"]
    assert not machines.diff(one, {**one, "access": "other"}).replaces
    assert machines.read("dev/10.0.0.1", one, one).resource_id == "dev/10.0.0.1"
