"""tidepool:slurm:DatabaseServer and DatabaseClient: a slurmdbd that clusters share, and each that uses another's."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from tidepool.clients.slurm.accounting import Accounting
from tidepool.clients.slurm.contract import DatabaseDown, PermissionDenied, SlurmError
from tidepool.clients.slurm.sharers import sharers_up
from tidepool.clients.transport import Completed, Transport
from tidepool.cluster.accounting import ACCOUNTING_KEY, ACCOUNTING_KEY_NAME, ACCOUNTING_SOCKET, SLURMDBD_PORT
from tidepool.cluster.desired_state import is_forced
from tidepool.cluster.names import ACCOUNTING_HOST, CONTROLLER_HOST
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.local.kernel import read_machine
from tidepool.infrastructures.local.kernel.peering import find_peerings, peer_of
from tidepool.provider.machines import connection_mistakes, local_machine
from tidepool.provider.qualities import foreign_quality
from tidepool.resources.databases import (
    DatabaseClient,
    DatabaseClientModel,
    DatabaseServer,
    DatabaseServerModel,
)
from tidepool.resources.kind import IdempotentKind, Kind, Made, Refusal, Task
from tidepool.resources.reading import Mistake

_TIMEOUT_S: Final = 15.0
_PAUSE_S: Final = 0.2
#: What sacctmgr reads before slurm.conf is there.
_CONF: Final = "/run/accounting.conf"
_REMEDY: Final = f"give it the one of the other stack's outputs: `pulumi config set --secret cluster:{ACCOUNTING_KEY_NAME}`"


class DatabaseServerKind(Kind[DatabaseServerModel]):
    """A slurmdbd that others use."""

    resource = DatabaseServer

    def mistakes(self, wanted: DatabaseServerModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"server": wanted.server}, self._home.data)

    def create(self, wanted: DatabaseServerModel, task: Task) -> Made:
        return Made(wanted.cluster)

    def refuse_update(self, old: DatabaseServerModel, wanted: DatabaseServerModel) -> None:
        self._refuse_without(old, wanted.shared_with)

    def delete(self, id: str, state: DatabaseServerModel, task: Task) -> None:
        if not is_forced(self._home.environment):
            self._refuse_without(state, {})

    def _refuse_without(self, state: DatabaseServerModel, stay: Mapping[str, str]) -> None:
        """Refuse to leave those out that use it, and are up."""
        gone = {name: network for name, network in state.shared_with.items() if stay.get(name) != network}
        try:
            using = sharers_up(transport(state.server, self._home.data), gone)
        except SlurmError as error:
            raise Refusal(str(error)) from error
        if using:
            raise Refusal(
                f"the slurmdbd of {state.cluster} is used by {', '.join(using)}, and would be theirs no more: take them down first"
            )


class DatabaseClientKind(IdempotentKind[DatabaseClientModel]):
    """The use of another cluster's slurmdbd."""

    resource = DatabaseClient

    def mistakes(self, wanted: DatabaseClientModel) -> Iterator[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)
        if not self._has_begun(wanted):
            yield from self._found_here(wanted)

    def refuse_update(self, old: DatabaseClientModel, wanted: DatabaseClientModel) -> None:
        if found := [each.reason for each in self._found_here(wanted)]:
            raise Refusal("\n".join(found))

    def _found_here(self, wanted: DatabaseClientModel) -> Iterator[Mistake]:
        """Find what speaks against it where both stacks are on this machine: before anything is made the other's machines are asked."""
        own = local_machine(wanted.controller)
        if own is None:
            return
        server = f"{wanted.host}/32"
        sides = list(find_peerings(self._home.data))
        there = peer_of(sides, own[0], wanted.network, server)
        dbd = read_machine(self._home.data, there.stack, ACCOUNTING_HOST) if there is not None else None
        if there is None or dbd is None or (dbd.address, SLURMDBD_PORT) != (wanted.host, wanted.port):
            yield Mistake(
                "host", f"no stack on this machine shares a slurmdbd at {wanted.host}, port {wanted.port}, with {wanted.cluster} in "
                f"{wanted.network}: name both in its controller.accounting.shared_with, and bring it up first"
            )  # fmt: skip
            return
        # Of two that come at once one has it, and only the other is told.
        rival = peer_of(sides, there.stack, there.cidr, there.peer)
        if rival is not None and rival.stack != own[0]:
            yield Mistake(
                "network", f"the stack {rival.stack} on this machine uses the slurmdbd of {there.stack} in {wanted.network} already: give "
                "this one another network, and name that in shared_with"
            )  # fmt: skip
        if there.name != wanted.cluster:
            yield Mistake(
                "cluster", f"in {wanted.network} the stack {there.stack} shares its slurmdbd with {there.name}, and this cluster is "
                f"{wanted.cluster}: correct one of both"
            )  # fmt: skip
        way = transport({"kind": "local", "stack": there.stack, "machine": CONTROLLER_HOST}, self._home.data)
        try:
            written = way.run(["sha256sum", ACCOUNTING_KEY], timeout_s=_TIMEOUT_S).stdout
            if written.partition(" ")[0] != hashlib.sha256(base64.b64decode(wanted.key)).hexdigest():
                # Not of the key, for an engine may show the value beside the reason.
                yield Mistake("host", f"the key is not that of the slurmdbd of {there.stack}; {_REMEDY}")
            database = Accounting(way, wanted.cluster, _TIMEOUT_S)
            yield from (Mistake("cluster", said) for said in _conflicts(database, wanted))
        except SlurmError as error:
            yield Mistake("host", f"the slurmdbd of {there.stack} does not answer: {error.what}")

    def create(self, wanted: DatabaseClientModel, task: Task) -> Made:
        way = transport(wanted.controller, self._home.data)
        if why := task.wait(lambda: _write_conf(way, wanted), "waiting for the controller", _PAUSE_S):
            raise Refusal(f"the controller cannot ask slurmdbd: {why}")
        database = Accounting(_WithConf(way), wanted.cluster, _TIMEOUT_S)
        try:
            found = list(_conflicts(database, wanted))
        except PermissionDenied as error:
            raise Refusal(
                f"slurmdbd at {wanted.host} does not take the key: {error.words}; {_REMEDY}"
            ) from error
        except DatabaseDown as error:
            raise Refusal(
                f"{wanted.host}:{wanted.port} does not answer as a slurmdbd ({error.what}): see that its stack is up, names this cluster in "
                "its shared_with, and that something leads from each network to the other"
            ) from error
        if found:
            raise Refusal("\n".join(found))
        return Made(f"{wanted.host}/{wanted.cluster}")

    def _has_begun(self, wanted: DatabaseClientModel) -> bool:
        """Return whether its slurmctld has Slurm's files already: it was asked for by then, and is there for its jobs whatever comes."""
        try:
            way = transport(wanted.controller, self._home.data)
            return way.run(["test", "-e", "/etc/slurm/slurm.conf"], timeout_s=_TIMEOUT_S).exit_code == 0
        except SlurmError:
            return False


@dataclass(frozen=True, slots=True)
class _WithConf:
    """Commands of a machine by the configuration that was written for them."""

    other: Transport

    @property
    def where(self) -> str:
        return self.other.where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return self.other.run(["env", f"SLURM_CONF={_CONF}", *argv], stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        self.other.close()


def _write_conf(way: Transport, wanted: DatabaseClientModel) -> str:
    """Write what sacctmgr needs; gives why it could not be, and nothing once the munged of the key is there."""
    lines = (
        f"ClusterName={wanted.cluster}",
        f"SlurmctldHost={CONTROLLER_HOST}",
        "AuthType=auth/munge",
        "AccountingStorageType=accounting_storage/slurmdbd",
        f"AccountingStorageHost={wanted.host}",
        f"AccountingStoragePort={wanted.port}",
        f"AccountingStoragePass={ACCOUNTING_SOCKET}",
    )
    try:
        way.run(["tee", _CONF], stdin="\n".join([*lines, ""]), timeout_s=_TIMEOUT_S)
        there = way.run(["test", "-S", ACCOUNTING_SOCKET], timeout_s=_TIMEOUT_S)
    except SlurmError as error:
        return error.what
    return "" if there.exit_code == 0 else f"{ACCOUNTING_SOCKET} is not there"


def _conflicts(database: Accounting, wanted: DatabaseClientModel) -> Iterator[str]:
    """Find what other clusters have already of what slurmdbd has one of.

    Raises:
        SlurmError: it cannot be asked.
    """
    host = database.clusters().get(wanted.cluster, "")
    if host and IPv4Address(host) not in IPv4Network(wanted.network):
        yield (
            f"a cluster {wanted.cluster} is registered with slurmdbd already, whose slurmctld is at {host}: take another `name`"
        )
    qualities = database.qualities()
    for name in wanted.qos:
        if name in qualities and qualities[name].owner != wanted.cluster:
            yield foreign_quality(name)
