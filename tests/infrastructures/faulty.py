"""Worlds that can be made to fail: how each has the faults that every infrastructure has. A line in `FAULTY` or `LASTING` for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.infrastructures.aws_world import aws_world
from tests.infrastructures.cloudstack_world import cloudstack_world
from tests.infrastructures.conftest import FakeWorld, World
from tests.infrastructures.ironic.server import Server
from tests.infrastructures.ironic_world import ironic_world
from tests.infrastructures.kubernetes_world import KubernetesWorld
from tests.infrastructures.libvirt.fake import FakeHost, FakeHosts
from tests.infrastructures.libvirt_world import LibvirtWorld, Made
from tests.infrastructures.metal_world import metal_world
from tests.infrastructures.nomad_world import nomad_world
from tests.infrastructures.ssh_world import ssh_world
from tests.simulation.infrastructure import FakeInfrastructure
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.ironic.inventory import EXTRA
from tidepool.simulation.machines import MachineRequest

#: What each machine of `tests.infrastructures.conftest.a_request` takes.
_MEMORY_MIB: Final = 64
_LATE_S: Final = 60


@dataclass(frozen=True)
class Faulty:
    """A world and its faults.

    ``stock`` leaves so many more machines to be had; ``lose_answer`` has the next machine made and nobody told; ``unseen``
    makes one that is not seen until ``show``; ``keep`` has one kept from being deleted, until ``release``.
    """

    world: World
    stock: Callable[[int], object]
    lose_answer: Callable[[], object]
    unseen: Callable[[MachineRequest], Machine]
    show: Callable[[], object]
    keep: Callable[[MachineKey], object]
    release: Callable[[MachineKey], object]


def _fake() -> Faulty:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    fake = FakeInfrastructure(lambda: now[0])

    def unseen(request: MachineRequest) -> Machine:
        fake.unseen_s = _LATE_S
        return fake.create(request)

    return Faulty(
        FakeWorld(fake),
        stock=lambda count: setattr(fake, "stock", count),
        lose_answer=fake.lose_answers,
        unseen=unseen,
        show=lambda: now.append(now.pop() + timedelta(seconds=_LATE_S)),
        keep=lambda key: fake.refuse_deletion(key.node),
        release=lambda key: fake.release(key.node),
    )


def _libvirt() -> Faulty:
    alpha = FakeHost()
    made = Made({"alpha": "qemu+ssh://root@alpha/system"}, FakeHosts(alpha=alpha))

    def unseen(request: MachineRequest) -> Machine:
        machine = made.create(request)
        alpha.unseen.add(f"{request.key.stack}-{request.key.node}")
        return machine

    return Faulty(
        LibvirtWorld(made),
        stock=lambda count: setattr(alpha, "memory_mib", count * _MEMORY_MIB),
        lose_answer=lambda: alpha.loses.add("start"),
        unseen=unseen,
        show=alpha.unseen.clear,
        keep=lambda key: alpha.refuses.add(f"{key.stack}-{key.node}"),
        release=lambda key: alpha.refuses.discard(f"{key.stack}-{key.node}"),
    )


def _aws() -> Faulty:
    world = aws_world()

    def unseen(request: MachineRequest) -> Machine:
        machine = world.infrastructure.create(request)
        world.front.unseen_s = 3600
        return machine

    return Faulty(
        world,
        stock=lambda count: setattr(world.front, "stock", count),
        lose_answer=world.front.lose_answers,
        unseen=unseen,
        show=lambda: setattr(world.front, "unseen_s", 0),
        keep=world.keep,
        release=lambda _: world.front.denied.clear(),
    )


def _kubernetes() -> Faulty:
    world = KubernetesWorld()

    def unseen(request: MachineRequest) -> Machine:
        world.fake.unseen_s = _LATE_S
        return world.infrastructure.create(request)

    return Faulty(
        world,
        stock=world.infrastructure.quota.append,
        lose_answer=world.fake.lose_answer,
        unseen=unseen,
        show=lambda: world.clock.forward(_LATE_S),
        keep=lambda key: world.fake.pin(world.pod(key), "backup.site/snapshot"),
        release=lambda key: world.fake.unpin(world.pod(key)),
    )


@contextmanager
def _ssh() -> Iterator[Faulty]:
    with ssh_world() as world:
        late = {}

        def unseen(request: MachineRequest) -> Machine:
            """Who looks has the inventory of before the host was in it."""
            machine = world.infrastructure.create(request)
            name = world.host(request.key)
            late[name] = world.inventory.pop(name)
            return machine

        yield Faulty(
            world,
            stock=world.leave,
            lose_answer=lambda: setattr(world.hosts, "lost", 1),
            unseen=unseen,
            show=lambda: world.inventory.update(late),
            keep=lambda key: world.hosts.read_only.add(world.host(key)),
            release=lambda key: world.hosts.read_only.discard(world.host(key)),
        )


@contextmanager
def _nomad() -> Iterator[Faulty]:
    with nomad_world() as world:
        nomad = world.nomad

        def unseen(request: MachineRequest) -> Machine:
            """The servers do not hear of it from its host."""
            nomad.late = 10**6
            return world.infrastructure.create(request)

        def show() -> None:
            for host in nomad.hosts.values():
                nomad.tell(host.name)

        yield Faulty(
            world,
            stock=world.leave,
            lose_answer=lambda: setattr(nomad, "lose", 1),
            unseen=unseen,
            show=show,
            keep=lambda _: nomad.denied.add("node:write"),
            release=lambda _: nomad.denied.discard("node:write"),
        )


@contextmanager
def _cloudstack() -> Iterator[Faulty]:
    with cloudstack_world() as world:
        cloud = world.cloud

        def unseen(request: MachineRequest) -> Machine:
            machine = world.infrastructure.create(request)
            cloud.unseen.add(request.key.node)
            return machine

        yield Faulty(
            world,
            stock=lambda count: setattr(cloud, "stock", count),
            lose_answer=lambda: setattr(cloud, "lose", 1),
            unseen=unseen,
            show=cloud.unseen.clear,
            keep=lambda _: cloud.denied.add("destroyVirtualMachine"),
            release=lambda _: cloud.denied.clear(),
        )


@contextmanager
def _metal() -> Iterator[Faulty]:
    with metal_world() as world:
        late: dict[str, str] = {}

        def unseen(request: MachineRequest) -> Machine:
            """Its BMC does not say it yet."""
            machine = world.infrastructure.create(request)
            host = world.host(request.key)
            late[host], world.bmcs.tags[host] = world.bmcs.tags[host], ""
            return machine

        yield Faulty(
            world,
            stock=world.leave,
            lose_answer=lambda: setattr(world.bmcs, "lose", 1),
            unseen=unseen,
            show=lambda: world.bmcs.tags.update(late),
            keep=lambda key: world.bmcs.read_only.add(world.host(key)),
            release=lambda _: world.bmcs.read_only.clear(),
        )


@contextmanager
def ironic_faults(server: Server) -> Iterator[Faulty]:
    """A real Ironic, and how it has these faults."""
    with ironic_world(server) as world:
        late: dict[str, str] = {}

        def unseen(request: MachineRequest) -> Machine:
            """Who looks has a copy of before it was claimed: nothing says whose its instance is."""
            machine = world.infrastructure.create(request)
            (held,) = world.infrastructure.hosts.find(request.key.stack)
            late[held.host.name] = held.host.marked
            world.server.change(held.host.name, "/extra", {})
            return machine

        def show() -> None:
            for name, marked in late.items():
                world.server.change(name, f"/extra/{EXTRA}", marked)

        def protect(key: MachineKey, *, on: bool) -> None:
            world.server.change(world.host(key), "/protected", on)

        yield Faulty(
            world,
            stock=world.leave,
            lose_answer=lambda: setattr(world.faults, "lose", 1),
            unseen=unseen,
            show=show,
            keep=lambda key: protect(key, on=True),
            release=lambda key: protect(key, on=False),
        )


#: By the names of worlds. Each is made anew for each test.
FAULTY: Final[Mapping[str, Callable[[], Faulty]]] = {
    "aws": _aws,
    "fake": _fake,
    "kubernetes": _kubernetes,
    "libvirt": _libvirt,
}

#: Those of worlds that last as long as a test.
LASTING: Final[Mapping[str, Callable[[], AbstractContextManager[Faulty]]]] = {
    "cloudstack": _cloudstack,
    "metal": _metal,
    "nomad": _nomad,
    "ssh": _ssh,
}


@contextmanager
def made_faulty(name: str) -> Iterator[Faulty]:
    """One of `FAULTY` and `LASTING`, for as long as a test takes."""
    if name in FAULTY:
        yield FAULTY[name]()
        return
    with LASTING[name]() as lasting:
        yield lasting
