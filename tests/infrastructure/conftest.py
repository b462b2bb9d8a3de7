"""Worlds that the contract is tried in: the fake's, and this machine's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

import pytest

from tests.infrastructure.this_machine import ThisMachine
from tests.local.conftest import data, image
from tests.local.stacks import Stack, left_of
from tidepool import local
from tidepool.infrastructure import FakeInfrastructure, Infrastructure, MachineKey, MachineRequest

__all__ = ["data", "image"]  # fixtures, which pytest finds here


class World(Protocol):
    """An infrastructure, and what happens to machines from outside."""

    stack: str

    @property
    def infrastructure(self) -> Infrastructure: ...

    def stop(self, key: MachineKey) -> None:
        """Pull its plug."""

    def vanish(self, key: MachineKey) -> None:
        """Take it away without asking."""


@dataclass
class FakeWorld:
    infrastructure: FakeInfrastructure = field(default_factory=FakeInfrastructure)
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        self.infrastructure.stop(key)

    def vanish(self, key: MachineKey) -> None:
        self.infrastructure.vanish(key)


@dataclass
class LocalWorld:
    infrastructure: ThisMachine
    stack: str

    def stop(self, key: MachineKey) -> None:
        local.pull_plug(self.infrastructure.data, key.stack, key.node)

    def vanish(self, key: MachineKey) -> None:
        local.delete_machine(self.infrastructure.data, key.stack, key.node)


@pytest.fixture(params=["fake", "local"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "fake":
        yield FakeWorld()
        return
    folder: Path = request.getfixturevalue("data")
    stack = Stack(folder, f"t{uuid.uuid4().hex[:8]}", request.getfixturevalue("image"))
    try:
        stack.network()
        yield LocalWorld(ThisMachine(folder, stack.image), stack.name)
    finally:
        stack.delete_all()
    assert left_of(stack) == []


def a_request(stack: str, number: int = 1, generation: int = 1) -> MachineRequest:
    key = MachineKey(stack, f"cpu-{number}", generation)
    return MachineRequest(key, IPv4Address(f"10.77.1.{number}"), 1, 64, "image", "boot")
