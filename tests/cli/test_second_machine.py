"""Two machines, each with a data folder and a home of its own: one state, one passphrase, the same keys."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.engine.shared import SHARED, Place, in_folder, in_postgres, in_s3, shared  # noqa: F401 - fixtures
from tests.objectstore import objectstore  # noqa: F401
from tests.postgres import postgres  # noqa: F401
from tidepool.cli.context import Context
from tidepool.cli.engine import Embedded
from tidepool.cli.errors import Failure
from tidepool.cli.passphrase import VARIABLE
from tidepool.cli.stack import Stack, find_stack
from tidepool.engine.state.layout import StackReference
from tidepool.infrastructures.connection import public_half, ssh_folder
from tidepool.provider.keys import SshKeyKind
from tidepool.resources.declarations import KeyPairModel
from tidepool.resources.kind import Home, Task

PULUMI_STACK = "urn:pulumi:physics::ops::pulumi:pulumi:Stack::ops-physics"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
TASK = Task("urn:pulumi:physics::ops::tidepool:keys:SshKey::ssh", 1.0, 0.0, print, print, print)
CONNECTION = {"kind": "ssh", "stack": "physics", "address": "10.0.0.2", "user": "root"}


def deployment(key: str) -> dict[str, Any]:
    """A state of a cluster whose machines are reached by SSH."""
    access = {
        "urn": "urn:pulumi:physics::ops::tidepool:ssh:Access::physics",
        "type": "tidepool:ssh:Access",
        "custom": True,
        "id": "physics",
        "parent": PULUMI_STACK,
        "inputs": {
            "stack": "physics",
            "privateKey": {**SECRET, "plaintext": json.dumps(key)},
            "hostKey": "ssh-ed25519 AAAA host",
            "addresses": "10.0.0.[2-3]",
        },
    }
    top = {"urn": PULUMI_STACK, "type": "pulumi:pulumi:Stack", "custom": False}
    outputs = {"controller": CONNECTION, "munge": {**SECRET, "plaintext": json.dumps("sesame")}}
    return {"version": 3, "deployment": {"manifest": {}, "resources": [{**top, "outputs": outputs}, access]}}


def key_pair() -> tuple[str, str]:
    """A private key and its public half, as the provider makes them."""
    made = SshKeyKind(Home(Path(), Path())).create(KeyPairModel(), TASK).outputs
    return str(made["privateKey"]), str(made["publicKey"])


def machine(folder: Path, settings: dict[str, str]) -> Stack:
    """The stack, as a person on a machine of their own has it."""
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "Pulumi.yaml").write_text("name: ops\nruntime: python\n")
    (project / "Pulumi.physics.yaml").write_text("config: {}\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TIDEPOOL_DATA": str(folder / "data"), **settings}
    return find_stack(Context(env, project, engine=Embedded(False, False)), "physics", None)


def test_the_second_machine_has_all_that_the_first_made(shared: Place, tmp_path: Path) -> None:  # noqa: F811
    both = {
        **shared.env,
        "PULUMI_BACKEND_URL": shared.url,
        VARIABLE: shared.within("secrets")["PULUMI_BACKEND_URL"],
    }
    first, second = (machine(tmp_path / name, both) for name in ("first", "second"))
    first.prepare()
    first.create()
    (tmp_path / "state.json").write_text(json.dumps(deployment("the private key")))
    assert first.ask("stack", "import", "--file", str(tmp_path / "state.json")).code == 0

    outputs = second.outputs()
    assert outputs == {"controller": CONNECTION, "munge": "[secret]"}
    assert second.secret("munge") == "sesame"
    folder = ssh_folder(second.data, "physics")
    assert (folder / "key").read_text() == "the private key"
    assert (folder / "known_hosts").read_text() == "10.0.0.2,10.0.0.3 ssh-ed25519 AAAA\n"
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
    # In clear they are in no shared place, and no file of the project's has a salt that others would trip over.
    assert "encryptionsalt" not in second.file.read_text()
    bucket = shared.bucket()
    state = bucket.read(bucket.root / ".pulumi" / "stacks" / "ops" / "physics.json")
    assert b"the private key" not in state

    # Who does not share the passphrase is told so, before there is a second one.
    alone = {name: value for name, value in both.items() if name != VARIABLE}
    third = machine(tmp_path / "third", alone)
    with pytest.raises(Failure, match="there is no passphrase of its secrets") as caught:
        third.outputs()
    assert VARIABLE in caught.value.remedy
    (third.data / "passphrase").write_text("another\n")
    with pytest.raises(
        Failure, match=r"keys of the machines of stack physics cannot be read.*incorrect passphrase"
    ):
        third.outputs()


def test_keys_that_the_first_machine_renewed_come_to_the_second(
    in_folder: Place,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = {"PULUMI_BACKEND_URL": in_folder.url, "PULUMI_CONFIG_PASSPHRASE": "sesame"}
    first, second = (machine(tmp_path / name, both) for name in ("first", "second"))
    first.create()
    folder = ssh_folder(second.data, "physics")

    def renew(host_key: str = "ssh-ed25519 AAAA host", addresses: str = "10.0.0.[2-3]") -> str:
        private, public = key_pair()
        state = deployment(private)
        top, access = state["deployment"]["resources"]
        access["inputs"] |= {"hostKey": host_key, "addresses": addresses}
        told = {"publicKey": public, "hostKey": host_key, "addresses": addresses}
        top["outputs"]["sshAccess"] = told
        (tmp_path / "state.json").write_text(json.dumps(state))
        assert first.ask("stack", "import", "--file", str(tmp_path / "state.json")).code == 0
        return private

    asked: list[str] = []
    whole = Stack._state_in_clear

    def counted(stack: Stack) -> dict[str, Any]:
        asked.append("state")
        return whole(stack)

    monkeypatch.setattr(Stack, "_state_in_clear", counted)
    for arguments in ({}, {"host_key": "ssh-ed25519 BBBB host"}, {"addresses": "10.0.0.[2-9]"}):
        private = renew(**arguments)
        for _ in range(2):
            assert second.outputs()
            assert (folder / "key").read_text() == private
        known = (folder / "known_hosts").read_text()
        assert arguments.get("host_key", "ssh-ed25519 AAAA host").split()[1] in known
        assert ("10.0.0.9" in known) is ("addresses" in arguments)
    assert len(asked) == 3, "once for each"

    # While somebody is at work, what is there may be newer than what the outputs say.
    newer = renew()
    with in_folder.backend().lock(StackReference("ops", "physics")):
        assert second.outputs()
        assert (folder / "key").read_text() == private
    assert second.outputs()
    assert (folder / "key").read_text() == (private := newer)
    assert len(asked) == 4

    # A machine that was killed between the files has the rest at the next look.
    (folder / "key").unlink()
    assert second.outputs()
    assert (folder / "key").read_text() == private
    assert len(asked) == 5


def test_the_public_half_of_a_key_is_read_from_the_private_one() -> None:
    private, public = key_pair()
    assert public_half(private).split() == public.split()[:2]
    for other in (
        "",
        "the private key",
        "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n",
    ):
        assert public_half(other) == ""
