"""tidepool:ssh:Access and tidepool:ssh:Machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidepool.cluster.hostlist import HostlistError, expand
from tidepool.infrastructures.connection import kept_for_ssh, ssh_folder, transport, why_silent
from tidepool.infrastructures.local.boots import name_mistakes
from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.private import remove_private, write_private
from tidepool.provider.machines import connection_mistakes
from tidepool.resources.declarations import SshAccess, SshAccessModel, SshMachine, SshMachineModel
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Kind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain


def _files(wanted: SshAccessModel) -> Mapping[str, str]:
    """The texts that are kept, by name."""
    return kept_for_ssh(wanted.private_key, wanted.host_key, wanted.addresses, wanted.port)


class SshAccessKind(IdempotentKind[SshAccessModel]):
    """A private key and the key of the machines that it opens, kept for root alone."""

    resource = SshAccess

    def mistakes(self, wanted: SshAccessModel) -> Iterable[Mistake]:
        yield from name_mistakes(stack=wanted.stack)
        if len(wanted.host_key.split()) < 2 or "\n" in wanted.host_key.strip():
            yield Mistake("hostKey", "one public key is wanted, on one line: ssh-ed25519 AAAA...")
        try:
            expand(wanted.addresses)
        except HostlistError as error:
            yield Mistake("addresses", str(error))

    def create(self, wanted: SshAccessModel, task: Task) -> Made:
        folder = ssh_folder(self._home.data, wanted.stack)
        with explained(f"keys could not be kept in {folder}"):
            for name, text in _files(wanted).items():
                write_private(folder / name, text)
        return Made(wanted.stack)

    def look(self, id: str, state: SshAccessModel) -> Mapping[str, Plain] | None:
        folder = ssh_folder(self._home.data, state.stack)
        try:
            there = {name: (folder / name).read_text() for name in _files(state)}
        except FileNotFoundError:
            return None
        # What is otherwise may be a key, and is not worth showing: it is written anew.
        return AS_KNOWN if there == _files(state) else None

    def delete(self, id: str, state: SshAccessModel, task: Task) -> None:
        folder = ssh_folder(self._home.data, state.stack)
        with explained(f"the keys in {folder} could not be deleted"):
            for name in _files(state):
                remove_private(folder / name, below=self._home.data)


_AGAIN_S: Final = 1.0


def _connection(wanted: SshMachineModel) -> Mapping[str, Any]:
    named = {"kind": "ssh", "stack": wanted.stack, "address": wanted.address, "user": wanted.user}
    return named if wanted.port == 22 else {**named, "port": wanted.port}


class SshMachineKind(Kind[SshMachineModel]):
    """A machine that answers by SSH. It is somebody else's: nothing is made here, and nothing is taken away."""

    resource = SshMachine
    #: A machine that boots is there in half a minute; one that is emulated, in several.
    timeout_s = 600.0

    def __init__(self, home: Home, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__(home)
        self._sleep = sleep

    def mistakes(self, wanted: SshMachineModel) -> Iterable[Mistake]:
        return connection_mistakes({"address": _connection(wanted)}, self._home.data)

    def create(self, wanted: SshMachineModel, task: Task) -> Made:
        reached = transport(_connection(wanted), self._home.data)
        why = task.wait(lambda: why_silent(reached), f"waiting for {wanted.address}", _AGAIN_S, self._sleep)
        if why:
            # The remedy where a person can set the time: that of an infrastructure with an option for it.
            more = ". A machine that is slower gets more time by `boot_timeout_s` of its infrastructure's options"
            raise Refusal(
                f"the machine {wanted.address} does not answer within {task.timeout_s:g} s: {why}. See its "
                "console; the next `tidepool up` goes on from here"
                + ("" if task.timeout_s == self.timeout_s else more),
                "boot",
            )
        return Made(f"{wanted.stack}/{wanted.address}", {"connection": _connection(wanted)})

    def look(self, id: str, state: SshMachineModel) -> Mapping[str, Plain] | None:
        # Not seen is not gone: whether it is there, who made it says.
        return AS_KNOWN
