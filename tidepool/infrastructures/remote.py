"""Ways to machines of a stack that are no local ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import pulumi
from pulumi import Output
from pulumi.runtime import get_root_resource

from tidepool import resources
from tidepool.cluster import hostlist
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.contract import File, Machine, MachineOrder
from tidepool.infrastructures.reading import own_addresses

#: Where sshd of every machine takes it from, and makes one where there is none.
_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"


@dataclass(frozen=True, slots=True)
class Ssh:
    """SSH access to machines of a stack: what keeps the keys here, and the files by which machines know them."""

    stack: str
    access: resources.SshAccess
    files: tuple[File, ...]
    port: int | None = None
    #: The public half of what the keys open machines by.
    public_key: Output[str] | None = None

    def machine(
        self, order: MachineOrder, machine_id: Output[str], opts: pulumi.ResourceOptions | None = None
    ) -> Machine:
        answers = resources.SshMachine(
            order.name,
            machine=machine_id,
            stack=self.stack,
            address=str(order.address),
            user="root",
            access=self.access.id,
            port=self.port,
            opts=opts,
        )
        return Machine(answers, machine_id, Output.from_input(str(order.address)), answers.connection)


#: Of programs that run: one in a process, and in tests one after the other.
_OF_PROGRAMS: Final[WeakKeyDictionary[pulumi.Resource, tuple[Ssh, int | None]]] = WeakKeyDictionary()


def ssh(spec: ClusterSpec, stack: str, port: int | None = None) -> Ssh:
    """The keys of a stack: one that opens its machines, and the one that all of them show at ``port``, by default SSH's.

    Registered once for a program, whichever of its infrastructures is the first to ask: they are the stack's.

    Raises:
        pulumi.RunError: machines of another infrastructure answer at another port.
    """
    program = get_root_resource()
    if program is None:
        return _registered(spec, stack, port)
    if program not in _OF_PROGRAMS:
        _OF_PROGRAMS[program] = _registered(spec, stack, port), port
    made, there = _OF_PROGRAMS[program]
    if there != port:
        raise pulumi.RunError(
            f"machines of this cluster would answer at the ports {there or 22} and {port or 22} by SSH, and in this release "
            "all answer at one: leave out infrastructures that have another one"
        )
    return made


def _registered(spec: ClusterSpec, stack: str, port: int | None) -> Ssh:
    administrator, machine_key = (resources.SshKey(f"ssh@{whose}") for whose in ("administrator", "machines"))
    slots = [str(slot.address) for fleet in spec.all_fleets for slot in fleet.slots()]
    access = resources.SshAccess(
        "ssh@machines",
        stack=stack,
        private_key=Output.secret(administrator.private_key),
        host_key=machine_key.public_key,
        addresses=hostlist.fold([*map(str, own_addresses(spec)), *slots]),
        port=port,
    )
    files = (
        File("/root/.ssh/authorized_keys", administrator.public_key, "0600"),
        File(_HOST_KEY, Output.secret(machine_key.private_key), "0600"),
        File(f"{_HOST_KEY}.pub", machine_key.public_key),
    )
    return Ssh(stack, access, files, port, administrator.public_key)


def ssh_outputs() -> Mapping[str, Any]:
    """Return an output of the stack that says which keys its machines are reached by, without them; none where none is by SSH."""
    program = get_root_resource()
    made = _OF_PROGRAMS.get(program) if program is not None else None
    if made is None:
        return {}
    access = made[0].access
    told = {"publicKey": made[0].public_key, "hostKey": access.host_key, "addresses": access.addresses}
    return {"sshAccess": told if made[1] is None else {**told, "port": made[1]}}
