"""tidepool:ssh:Access."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tidepool.cluster.hostlist import HostlistError, expand
from tidepool.infrastructures.connection import ssh_folder
from tidepool.infrastructures.local.boots import name_mistakes, remove_if_empty
from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.lock import make_private
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.ssh import SshAccess, SshAccessModel
from tidepool.resources.values import Plain

_KEY: Final = "key"
_KNOWN: Final = "known_hosts"


def _files(wanted: SshAccessModel) -> Mapping[str, str]:
    """The texts that are kept, by name."""
    # As SSH writes hosts with another port than its own.
    form = "{}" if wanted.port == 22 else f"[{{}}]:{wanted.port}"
    known = ",".join(form.format(address) for address in expand(wanted.addresses))
    key = " ".join(wanted.host_key.split()[:2])
    return {_KEY: wanted.private_key, _KNOWN: f"{known} {key}\n"}


class SshAccessKind(Kind[SshAccessModel]):
    """A private key and the key of the machines that it opens, kept for root alone."""

    resource = SshAccess

    def __init__(self, home: Home) -> None:
        self._home = home

    def mistakes(self, wanted: SshAccessModel) -> Iterable[Mistake]:
        yield from name_mistakes(stack=wanted.stack)
        if len(wanted.host_key.split()) < 2 or "\n" in wanted.host_key.strip():
            yield Mistake("hostKey", "one public key is wanted, on one line: ssh-ed25519 AAAA...")
        try:
            expand(wanted.addresses)
        except HostlistError as error:
            yield Mistake("addresses", str(error))

    def create(self, wanted: SshAccessModel, task: Task) -> Made:
        self._keep(wanted)
        return Made(wanted.stack)

    def update(self, id: str, old: SshAccessModel, wanted: SshAccessModel, task: Task) -> Mapping[str, Plain]:
        self._keep(wanted)
        return {}

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
                (folder / name).unlink(missing_ok=True)
            remove_if_empty(folder, below=self._home.data)

    def _keep(self, wanted: SshAccessModel) -> None:
        folder = ssh_folder(self._home.data, wanted.stack)
        with explained(f"keys could not be kept in {folder}"):
            make_private(folder)
            for name, text in _files(wanted).items():
                _write_private(folder / name, text)


def _write_private(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    partial.rename(path)
