"""The resources of bare metal as the provider serves them, at the Redfish service of sushy-tools."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests import versions
from tests.infrastructures.metal_world import MetalWorld, metal_world
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.images.iso import SEED, SEED_BYTES
from tidepool.infrastructures.boot_media import kinds
from tidepool.infrastructures.boot_media.kinds import MetalBootKind
from tidepool.infrastructures.boot_media.media import Kept
from tidepool.infrastructures.boot_media.resources import MetalBootModel
from tidepool.infrastructures.boot_media.silence import silence
from tidepool.infrastructures.metal.kinds import MetalMachineKind, MetalSiteKind
from tidepool.infrastructures.metal.resources import MetalMachineModel, MetalSiteModel
from tidepool.infrastructures.metal.resting import Failures
from tidepool.resources.kind import Home, Refusal, Task, Unfinished

pytestmark = [
    pytest.mark.runs("metal", versions.installed("sushy"), f"Redfish of {versions.installed('sushy-tools')}")
]


CONTENT = '#cloud-config\n{"bootcmd": [], "write_files": [], "runcmd": []}'


def a_task(seconds: float = 30) -> Task:
    say: Any = lambda _: None  # noqa: E731
    return Task("urn", seconds, time.monotonic() + seconds, say, say, say)


@dataclass
class Stack:
    world: MetalWorld
    home: Home
    image: Path
    #: What keeps machines from answering by SSH.
    silent: str = ""

    @property
    def machines(self) -> MetalMachineKind:
        return MetalMachineKind(self.home, sleep=lambda _: None, silence=lambda _: self.silent)

    def site(self, **more: Any) -> MetalSiteModel:
        hosts = self.world.infrastructure.hosts.entries
        # BMCs of tests fetch what they boot from themselves.
        service = f"{self.world.bmcs.url}/images"
        return MetalSiteModel(stack="one", hosts=hosts, boot_service=service, prefix=16, **more)

    def machine(self, **more: Any) -> MetalMachineModel:
        told = {"cpus": 1, "memory_mib": 64, "image": str(self.image), **more}
        return MetalMachineModel(
            stack="one", site="one", machine="cpu-1", address="10.77.10.1", boot="cpu", **told
        )


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    image = tmp_path / "image.iso"
    image.write_bytes(b"\0" * SEED_BYTES)
    monkeypatch.setattr(kinds, "seed_at", lambda path: 0 if path == image else pytest.fail(SEED))
    with metal_world() as world:
        made = Stack(world, Home(tmp_path / "data", tmp_path), image)
        MetalSiteKind(made.home).create(made.site(gateway="10.77.0.1"), a_task())
        boot = MetalBootModel(stack="one", boot="cpu", content=CONTENT)
        MetalBootKind(made.home).create(boot, a_task())
        yield made


def test_a_machine_is_made_seen_when_it_is_off_and_gone_when_it_goes(stack: Stack) -> None:
    wanted = stack.machine()
    made = stack.machines.create(wanted, a_task())
    assert stack.machines.create(wanted, a_task()) == made
    host = made.id.partition("/")[0]
    medium = Kept(stack.home.data, "one").read(host)
    assert medium is not None
    assert (medium.node, medium.address, medium.gateway) == ("cpu-1", "10.77.10.1/16", "10.77.0.1")
    assert stack.machines.look(made.id, wanted) == {}
    stack.world.bmcs.change(host, power_state="Off")
    assert stack.machines.look(made.id, wanted) == {"state": "off"}
    stack.machines.update(made.id, wanted, wanted, a_task())
    assert stack.machines.look(made.id, wanted) == {}
    stack.world.bmcs.down.add(host)
    assert stack.machines.look(made.id, wanted) == {}
    stack.world.bmcs.down.clear()
    for _ in range(2):
        stack.machines.delete(made.id, wanted, a_task())
        assert stack.machines.look(made.id, wanted) is None
    assert Kept(stack.home.data, "one").read(host) is None


def test_a_machine_that_was_begun_is_pulumis_and_gone_on_with(stack: Stack) -> None:
    stack.world.bmcs.lose = 1
    with pytest.raises(Unfinished, match="goes on from here") as raised:
        stack.machines.create(stack.machine(), a_task())
    assert stack.machines.create(stack.machine(), a_task()).id == raised.value.id


def test_what_is_not_on_this_machine_is_told_with_what_writes_it(stack: Stack) -> None:
    with pytest.raises(Transient, match="the boot other is not there"):
        stack.machines.create(MetalMachineModel(**vars(stack.machine()) | {"boot": "other"}), a_task())
    MetalSiteKind(stack.home).delete("one", stack.site(), a_task())
    with pytest.raises(Refusal, match="up --refresh"):
        stack.machines.create(stack.machine(), a_task())


def test_a_boot_that_has_no_room_in_the_iso_switches_no_host_on(stack: Stack) -> None:
    large = CONTENT.replace('"runcmd": []', f'"runcmd": ["{"x" * SEED_BYTES}"]')
    MetalBootKind(stack.home).create(MetalBootModel(stack="one", boot="cpu", content=large), a_task())
    with pytest.raises(Permanent, match="there is room for 4194304"):
        stack.machines.create(stack.machine(), a_task())
    assert set(stack.world.bmcs.tags.values()) == {""}


def test_files_of_a_stack_are_written_anew_where_somebody_changed_them(stack: Stack) -> None:
    sites, boots = MetalSiteKind(stack.home), MetalBootKind(stack.home)
    site = stack.site(gateway="10.77.0.1")
    boot = MetalBootModel(stack="one", boot="cpu", content=CONTENT)
    assert (sites.look("one", site), boots.look("cpu", boot)) == ({}, {})
    Kept(stack.home.data, "one").write_site("{}")
    Kept(stack.home.data, "one").remove_boot("cpu")
    assert (sites.look("one", site), boots.look("cpu", boot)) == ({"state": "another"}, {"state": "another"})


def test_a_host_that_does_not_come_up_is_given_back_and_left_alone_and_the_next_is_the_machine(
    stack: Stack,
) -> None:
    answers = {"alpha": False, "beta": True}

    def silence(_: str) -> str:
        (host,) = [name for name, tag in stack.world.bmcs.tags.items() if tag]
        return "" if answers[host] else "nothing is there"

    machines = MetalMachineKind(stack.home, sleep=lambda _: None, silence=silence)
    wanted = stack.machine(boot_timeout_s=1)
    made = machines.create(wanted, a_task())
    assert made.id.startswith("beta/")
    assert stack.world.bmcs.tags["alpha"] == ""
    assert stack.world.bmcs.system("alpha")["power_state"] == "Off"
    failures = Failures(Kept(stack.home.data, "one"))
    said = failures.resting()["alpha"]
    assert "it was switched on, and does not answer by SSH within 1 s (nothing is there)" in said
    assert "its boot said nothing here, so look at its console" in said
    machines.delete(made.id, wanted, a_task())

    # It is tried again when its time is over, or a person says so; and longer is waited each time that it fails.
    answers["alpha"] = True
    only = stack.machine(hosts=("alpha",))
    with pytest.raises(InsufficientCapacity, match="alpha: it failed once, and is left alone until"):
        machines.create(only, a_task())
    now = time.time()
    assert "alpha" not in failures.resting(now + 3700)
    failures.note("alpha", "again", now)
    assert "it failed 2 times" in failures.resting(now + 7000)["alpha"]
    failures.clear("alpha")
    assert machines.create(only, a_task()).id.startswith("alpha/")


def test_who_is_interrupted_while_a_host_boots_blames_no_host(stack: Stack) -> None:
    stack.silent = "nothing is there"
    with pytest.raises(Unfinished, match="is switched on, and does not answer by SSH yet") as raised:
        stack.machines.create(stack.machine(), a_task(0.1))
    assert Failures(Kept(stack.home.data, "one")).resting() == {}
    stack.silent = ""
    assert stack.machines.create(stack.machine(), a_task()).id == raised.value.id


def test_attributes_of_a_bios_that_do_not_hold_once_it_has_booted_are_told(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    task = replace(a_task(), warn=warned.append)
    monkeypatch.setattr(stack.world.bmcs.driver, "set_bios", lambda *_: None)
    stack.machines.create(stack.machine(bios={"LogicalProc": "Disabled"}), task)
    assert warned == [
        "the host alpha has booted, and of its BIOS LogicalProc is 'Enabled', not 'Disabled': see whether its firmware lets that be set"
    ]


def test_what_a_boot_said_is_named_where_its_host_does_not_come_up(stack: Stack) -> None:
    kept = Kept(stack.home.data, "one")

    def silence(_: str) -> str:
        # The one before is set aside when the host is switched on.
        assert not kept.log("alpha").exists() or kept.log("alpha").read_text() == "kernel: panic"
        kept.write_log("alpha", "kernel: panic")
        return "nothing is there"

    kept.write_log("alpha", "the boot before")
    machines = MetalMachineKind(stack.home, sleep=lambda _: None, silence=silence)
    with pytest.raises(Transient, match=r"what its boot said is in /.*/one/metal/logs/alpha.log"):
        machines.create(stack.machine(hosts=("alpha",), boot_timeout_s=1), a_task())
    assert (kept.folder / "logs" / "alpha.before.log").read_text() == "the boot before"


def test_ssh_is_answered_by_its_own_words_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer(words: bytes) -> str:
            def once() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.sendall(words)

            thread = threading.Thread(target=once)
            thread.start()
            try:
                return silence("127.0.0.1", port)
            finally:
                thread.join()

        assert answer(b"SSH-2.0-OpenSSH_9.2") == ""
        assert answer(b"HTTP/1.1 400") == "what answers there is not SSH"
    assert "refused" in silence("127.0.0.1", port)
