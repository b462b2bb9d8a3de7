"""Existing hosts as a world of the contract: they are claimed by the provider's resource, and found by the package."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.infrastructures.ssh.fake import FakeHosts, connection
from tidepool.infrastructures import Machine, MachineKey
from tidepool.infrastructures.ssh.kinds import SshHostKind
from tidepool.infrastructures.ssh.machines import Machines, claim_key
from tidepool.infrastructures.ssh.reading import host_of
from tidepool.infrastructures.ssh.resources import SshHostModel
from tidepool.resources.kind import Home, Task
from tidepool.simulation.machines import MachineRequest


@dataclass(frozen=True, slots=True)
class Claimed(Machines):
    """Hosts that are claimed as the resource tidepool:ssh:Host does: node 1 is the first."""

    names: Sequence[str] = ()

    def create(self, request: MachineRequest) -> Machine:
        key = request.key
        host = host_of(self.names, int(key.node.rpartition("-")[2]))
        kind = SshHostKind(Home(Path("/"), Path("/")), self.ask)
        kind.create(model(key, host, str(request.address), self.hosts[host]), a_task())
        made = self.read(key)
        assert made is not None
        return made


def a_task(said: list[str] | None = None) -> Task:
    """One that has a minute, and keeps what it is warned of."""
    keep = (said if said is not None else []).append
    return Task("urn", 60.0, time.monotonic() + 60, lambda _: None, keep, keep)


@dataclass
class SshWorld:
    """`tests.infrastructures.conftest.World`. ``inventory`` is what its machines' side knows of hosts, by name."""

    hosts: FakeHosts
    inventory: dict[str, Mapping[str, Any]]
    infrastructure: Claimed
    stack: str = "one"

    def stop(self, key: MachineKey) -> None:
        """What a host has of a plug: its claim was cut off in the middle."""
        path = self._place(key) / "claim.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "state": "claiming"}))

    def vanish(self, key: MachineKey) -> None:
        """It was installed anew, say."""
        shutil.rmtree(self._place(key))

    def host(self, key: MachineKey) -> str:
        """Which one a machine that is there has."""
        found = self.infrastructure.read(key)
        assert found is not None
        return found.machine_id.partition("/")[0]

    def leave(self, count: int) -> None:
        """So many hosts; all others are another stack's by now."""
        for name in self.infrastructure.names[count:]:
            key = claim_key(MachineKey("another", f"cpu-{name}"))
            assert self.hosts.keeper(name, "claim", {"key": key})["claimed_by"] == key

    def _place(self, key: MachineKey) -> Path:
        return self.hosts.root(self.host(key)) / "var/lib/tidepool-node"


@contextmanager
def ssh_world() -> Iterator[SshWorld]:
    """Three hosts, whose addresses are their names."""
    names = ("alpha", "beta", "gamma")
    with TemporaryDirectory(prefix="hosts-") as folder:
        hosts = FakeHosts(Path(folder), names)
        inventory = {name: connection(name) for name in names}
        yield SshWorld(
            hosts,
            inventory,
            Claimed(
                inventory, {name: [f"cpu-{number}"] for number, name in enumerate(names, 1)}, hosts, names
            ),
        )


def model(key: MachineKey, host: str, address: str, connection: Mapping[str, Any]) -> SshHostModel:
    """The host as a node, as the provider reads it."""
    return SshHostModel(
        stack=key.stack,
        node=key.node,
        host=host,
        address=address,
        connection=connection,
    )
