"""Connections to machines, as the outputs of a stack say them, and the transports that they lead to.

A connection is a mapping that names a machine and holds no secret::

    {"kind": "local", "stack": "dev", "machine": "ctl"}
    {"kind": "ssh", "stack": "dev", "address": "10.77.0.2", "user": "root"}
    {"kind": "host", "address": "192.0.2.11", "user": "admin", "key": "/root/.ssh/id", "known_hosts": "/root/.ssh/known_hosts"}

It stays true when the machine boots again: what changes with a boot (a process, a port) is looked up by each call.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tidepool.clients.slurm import Completed, SlurmError, Transport
from tidepool.clients.slurm import TimedOut as SlurmTimedOut
from tidepool.clients.transport import NotRunning
from tidepool.cluster.hostlist import expand
from tidepool.infrastructures.local import kernel

#: Everything that Tidepool keeps on this machine, unless TIDEPOOL_DATA says otherwise.
DEFAULT_DATA: Final = Path("/var/lib/tidepool")


def data_folder(environment: Mapping[str, str]) -> Path:
    """The data folder that ``environment`` names, or `DEFAULT_DATA`; absolute."""
    return Path(environment.get("TIDEPOOL_DATA") or DEFAULT_DATA).absolute()


def ssh_folder(data: Path, stack: str) -> Path:
    """Return the folder of the key by which a stack's machines are reached (``key``), and of theirs (``known_hosts``)."""
    return data / stack / "ssh"


def kept_for_ssh(private_key: str, host_key: str, addresses: str, port: int) -> dict[str, str]:
    """Return the texts in that folder, by name: ``host_key`` is what all of ``addresses``, a hostlist, show.

    The private key comes last: where it is there, what was written with it is, too.
    """
    # As SSH writes hosts with another port than its own.
    form = "{}" if port == 22 else f"[{{}}]:{port}"
    known = ",".join(form.format(address) for address in expand(addresses))
    return {"known_hosts": f"{known} {' '.join(host_key.split()[:2])}\n", "key": private_key}


def public_half(private_key: str) -> str:
    """Return the public key of a private one in OpenSSH's form, as ``ssh-ed25519 AAAA``; empty where it is none."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_ssh_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return ""
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(*form).decode()


def transport(connection: Mapping[str, Any], data: Path) -> Transport:
    """Return the transport that runs commands on the machine that ``connection`` names.

    One of SSH is everybody's in this process who asks for that machine: to log in costs it more than most commands do.

    Raises:
        ValueError: it is no connection that is known here.
    """
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            return InMachine(data, stack, machine)
        case {"kind": "ssh", "stack": str(stack), "address": str(address), "user": str(user)}:
            folder = ssh_folder(data, stack)
            return _by_ssh(
                address, user, folder / "key", folder / "known_hosts", int(connection.get("port", 22))
            )
        case {
            "kind": "host",
            "address": str(address),
            "user": str(user),
            "key": str(key),
            "known_hosts": str(known_hosts),
        }:
            reached = _by_ssh(address, user, Path(key), Path(known_hosts), int(connection.get("port", 22)))
            return reached if user == "root" else AsRoot(reached)
        case _:
            raise ValueError(f"{dict(connection)!r} is no connection; known kinds are: local, ssh, host")


@cache
def _by_ssh(address: str, user: str, key: Path, known_hosts: Path, port: int) -> Transport:
    # Its library takes a tenth of a second to import, and most stacks have no use for it.
    from tidepool.clients.ssh import Ssh

    return Ssh(address, user=user, key=key, known_hosts=known_hosts, port=port)


_ONE_S: Final = 15.0
#: How far a machine is that cannot be connected with.
_BOOTS: Final[Mapping[int | None, str]] = {
    errno.EHOSTUNREACH: "it boots, and has no address yet; ",
    errno.ECONNREFUSED: "it boots, and has its address; sshd does not run yet; ",
}


def why_silent(reached: Transport) -> str:
    """Tell why a machine runs no command; empty where it does."""
    try:
        ended = reached.run(["true"], timeout_s=_ONE_S)
    except SlurmError as error:
        return _BOOTS.get(getattr(error.__cause__, "errno", None), "") + error.what
    return "" if ended.exit_code == 0 else f"`true` ended with {ended.exit_code}: {ended.stderr.strip()}"


@dataclass(frozen=True, slots=True)
class AsRoot:
    """Runs commands as root by sudo, which asks for no password, where somebody else logs in."""

    other: Transport

    @property
    def where(self) -> str:
        return self.other.where

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        return self.other.run(["sudo", "-n", "--", *argv], stdin=stdin, timeout_s=timeout_s)

    def close(self) -> None:
        self.other.close()


@dataclass(frozen=True, slots=True)
class InMachine:
    """Runs commands as root in a machine of this machine, whichever boot it is in."""

    data: Path
    stack: str
    machine: str

    @property
    def where(self) -> str:
        return f"on machine {self.machine} of stack {self.stack}"

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        try:
            ended = kernel.execute(
                self.data, self.stack, self.machine, argv, timeout_s=timeout_s, stdin=stdin
            )
        except kernel.NoSuchMachine as error:
            raise NotRunning(str(error), where=self.where, remedy="`tidepool up` boots it again") from error
        except kernel.TimedOut as error:
            raise SlurmTimedOut(
                str(error), where=self.where, remedy="see its boot log: `tidepool logs`"
            ) from error
        return Completed(ended.code, ended.stdout, ended.stderr)

    def close(self) -> None:
        """Nothing is kept between commands."""
