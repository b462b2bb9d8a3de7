"""Machines that are reached by SSH: a command, a login and logs get there, with the stack's keys and no others."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.standins import OUTPUTS, Person
from tidepool.cli import logs
from tidepool.cli.errors import Failure
from tidepool.cli.reach import command_on
from tidepool.cli.stack import Stack, find_stack
from tidepool.clients.slurm import Completed

NODE = {"kind": "ssh", "stack": "dev", "address": "10.99.1.1", "user": "root"}
CONTROLLER = {"kind": "ssh", "stack": "dev", "address": "10.99.0.2", "user": "root"}
#: Does here what it would have done there, and says where that is.
SSH = """#!/bin/sh
echo "$@" >>"$HOME/said"
while [ "$1" != -- ]; do shift; done
echo "on $2"; shift 2
exec sh -c "$*"
"""


def state(*connections: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """What `stack export` says of nodes."""
    above = "urn:pulumi:dev::cluster::tidepool:components:ComputeFleet$tidepool:slurm:Node"
    resources = [
        {"urn": f"{above}::{name}", "type": "tidepool:slurm:Node", "inputs": {"machine": connection}}
        for name, connection in connections
    ]
    return {"version": 3, "deployment": {"resources": resources}}


@pytest.fixture
def there(somebody: Person, monkeypatch: pytest.MonkeyPatch) -> Person:
    """A cluster whose machines are elsewhere, and an ssh that goes nowhere."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    folder = Path(somebody.context.env["TIDEPOOL_DATA"]) / "dev" / "ssh"
    folder.mkdir(parents=True)
    (folder / "key").write_text("KEY")
    (folder / "known_hosts").write_text("10.99.0.2,10.99.1.1,10.99.1.2 ssh-ed25519 AAAA\n")
    bin = somebody.folder / "bin"
    bin.mkdir()
    (bin / "ssh").write_text(SSH)
    (bin / "ssh").chmod(0o755)
    path = f"{bin}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    somebody.context = replace(somebody.context, env={**somebody.context.env, "PATH": path})
    monkeypatch.setenv("HOME", str(somebody.folder))
    somebody.engine.outputs = {**OUTPUTS, "controller": CONTROLLER, "logins": []}
    second = {**NODE, "address": "10.99.1.2"}
    somebody.engine.exported = state(("cpu-1", NODE), ("cpu-2", second))
    return somebody


def stack_of(person: Person) -> Stack:
    return find_stack(person.context, "dev", None)


def test_a_command_goes_to_the_machine_by_the_keys_of_the_stack(there: Person) -> None:
    data = there.context.env["TIDEPOOL_DATA"]
    argv = command_on(stack_of(there), NODE, ["echo", "a b", "$HOME"])
    assert argv[0].endswith("/ssh")
    assert f"IdentityFile={data}/dev/ssh/key" in argv
    assert f"UserKnownHostsFile={data}/dev/ssh/known_hosts" in argv
    assert "StrictHostKeyChecking=yes" in argv
    assert argv[-2:] == ("10.99.1.1", "echo 'a b' '$HOME'")
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["on 10.99.1.1", "a b $HOME"]


def host_of(person: Person, known: str, **more: Any) -> dict[str, Any]:
    """The connection of an existing host, and who knows its key: ``known``."""
    known_hosts = person.folder / "known"
    known_hosts.write_text(f"{known} ssh-ed25519 AAAA\n")
    return {
        "kind": "host",
        "address": "192.0.2.1",
        "port": 2200,
        "user": "admin",
        "key": "/home/admin/.ssh/id",
        "known_hosts": str(known_hosts),
        **more,
    }


def test_a_command_goes_to_an_existing_host_by_the_persons_keys_and_as_root(there: Person) -> None:
    host = host_of(there, "[192.0.2.1]:2200")
    argv = command_on(stack_of(there), host, ["echo", "a b"])
    assert "IdentityFile=/home/admin/.ssh/id" in argv
    assert f"UserKnownHostsFile={host['known_hosts']}" in argv
    assert argv[-5:] == ("-l", "admin", "--", "192.0.2.1", "sudo -n -- echo 'a b'")
    assert command_on(stack_of(there), {**host, "user": "root"}, ["id"])[-1] == "id"


def hashed(name: str) -> str:
    """The name as ssh writes it by HashKnownHosts, which Debian sets."""
    salt = b"12345678901234567890"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{b64encode(salt).decode()}|{b64encode(digest).decode()}"


@pytest.mark.parametrize(
    "known",
    ["[192.0.2.1]:2200", "alpha,[192.0.2.1]:2200", "192.0.2.1", "192.0.2.*", hashed("[192.0.2.1]:2200")],
)
def test_a_host_is_known_as_ssh_knows_it(there: Person, known: str) -> None:
    assert command_on(stack_of(there), host_of(there, known), ["id"])


@pytest.mark.parametrize("known", ["[192.0.2.1]:2201", "!192.0.2.1,192.0.2.*", hashed("192.0.2.2")])
def test_an_existing_host_that_is_not_known_is_told_with_the_way_to_its_key(
    there: Person, known: str
) -> None:
    with pytest.raises(Failure, match=r"the host key of \[192\.0\.2\.1\]:2200 is not in ") as failed:
        command_on(stack_of(there), host_of(there, known), ["id"])
    assert "`ssh-keyscan -p 2200 192.0.2.1`" in failed.value.remedy
    assert "tidepool up" not in failed.value.remedy


def test_several_machines_are_found_by_their_names_wherever_they_are(there: Person) -> None:
    result = there.runs("exec", "cpu-[1-2]", "--", "echo", "hello")
    assert result.exit_code == 0, result.output
    assert sorted(result.stdout.splitlines()) == [
        "cpu-1: hello",
        "cpu-1: on 10.99.1.1",
        "cpu-2: hello",
        "cpu-2: on 10.99.1.2",
    ]


def test_a_machine_that_nothing_knows_is_told_with_those_that_there_are(there: Person) -> None:
    result = there.runs("exec", "cpu-7", "--", "true")
    assert "there is no machine cpu-7 in stack dev" in result.stderr
    assert "cpu-[1-2],ctl" in result.stderr


def test_without_its_host_key_nobody_is_spoken_to(there: Person) -> None:
    other = {**NODE, "address": "10.99.9.9"}
    with pytest.raises(Failure, match=r"the host key of 10\.99\.9\.9 is not in "):
        command_on(stack_of(there), other, ["true"])
    with pytest.raises(Failure, match="known are local, ssh, host"):
        command_on(stack_of(there), {"kind": "pigeon"}, ["true"])


def test_a_user_is_root_who_became_them_or_comes_by_their_own_key(there: Person) -> None:
    there.engine.outputs = {**(there.engine.outputs or {}), "sshKey": "PRIVATE"}
    su = there.folder / "bin" / "su"
    su.write_text(f'#!/bin/sh\nprintf "%s|" "$@" >{there.folder}/su\n')
    su.chmod(0o755)
    result = there.runs("ssh", "controller", "--", "echo", "'a  b'")
    assert result.exit_code == 0, result.output
    assert (there.folder / "su").read_text() == "--login|researcher|--command|echo 'a  b'|"
    own = there.folder / "own"
    own.touch()
    assert there.runs("ssh", "-u", "ada", "-i", str(own), "controller", "--", "true").exit_code == 0
    assert there.runs("ssh", "-u", "root", "controller", "--", "true").exit_code == 0
    by_root, by_herself, as_root = (there.folder / "said").read_text().splitlines()
    assert "-l root -- 10.99.0.2 su --login researcher" in by_root
    assert "IdentityFile=/proc/" in by_root
    assert f"IdentityFile={own}" in by_herself
    assert "-l ada -- 10.99.0.2 true" in by_herself
    assert "-l root -- 10.99.0.2 true" in as_root


def test_a_person_logs_in_to_an_existing_host_as_who_is_let_in_there(there: Person) -> None:
    host = host_of(there, "[192.0.2.1]:2200")
    there.engine.exported = state(("alpha", host))
    assert there.runs("ssh", "alpha", "--", "true").exit_code == 0
    assert there.runs("ssh", "-l", "ada", "alpha", "--", "true").exit_code == 0
    said, by_name = (there.folder / "said").read_text().splitlines()
    assert "-l admin -- 192.0.2.1 true" in said
    assert "-l ada -- 192.0.2.1 true" in by_name
    assert "IdentityFile=/home/admin/.ssh/id" in said
    assert f"UserKnownHostsFile={host['known_hosts']}" in said


class _There:
    """What runs commands there."""

    where = "on root@10.99.1.1"

    def run(self, argv: list[str], *, stdin: str = "", timeout_s: float) -> Completed:
        if argv[0] == "sh":
            return Completed(0, "/var/log/cloud-init-output.log\n/var/log/slurm/slurmd.log\n", "")
        return Completed(0, f"the last {argv[2]} of {argv[-1]}\n", "")


def test_logs_are_those_that_are_there(there: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidepool.infrastructures.connection.transport", lambda connection, data: _There())
    result = there.runs("logs", "cpu-1", "-n", "3", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [
        {
            "log": "boot.log",
            "path": "/var/log/cloud-init-output.log",
            "lines": ["the last 3 of /var/log/cloud-init-output.log"],
        },
        {
            "log": "slurmd.log",
            "path": "/var/log/slurm/slurmd.log",
            "lines": ["the last 3 of /var/log/slurm/slurmd.log"],
        },
    ]
    assert logs.last_lines(Path("/nowhere"), 3) == []
