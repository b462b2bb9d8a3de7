"""Ways of a person's command to a machine: by the kind of its connection, with this machine's own programs."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tidepool.cli.context import Connection
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.stack import Stack

_T = TypeVar("_T")
_CONNECT_S: Final = 10
#: Ways to a host key that is not known, by the kind of the machine's connection.
_REMEDIES: Final[Mapping[str, str]] = {
    "ssh": "`tidepool up`, on the machine that brought the stack up last",
    "host": "compare what `ssh-keyscan -p {port} {address}` says with the host's console, and write it there",
}


@dataclass(frozen=True, slots=True)
class SshAddress:
    """The address of a machine's sshd."""

    address: str
    port: int = 22

    @property
    def known_as(self) -> str:
        """The name under which ssh keeps the host, with its port where that is another than 22."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


def command_on(
    stack: Stack, connection: Connection, command: Sequence[str], *, terminal: bool = False
) -> tuple[str, ...]:
    """Return the command line that runs ``command`` there as root; its first word is a path. ``terminal``: with the caller's.

    Raises:
        Failure: there is no such way to that machine.
        LocalError: it does not run.
    """
    return by_kind(_WAYS, connection, "commands cannot be run")(stack, connection, command, terminal)


def by_kind(ways: Mapping[str, _T], connection: Connection, failed: str) -> _T:
    """Return the way of those ``ways`` that is for the kind of ``connection``.

    Raises:
        Failure: there is none; ``failed`` says what cannot be done.
    """
    kind = str(connection.get("kind"))
    if kind not in ways:
        raise Failure(f"{failed} over the connection {dict(connection)}; known are {', '.join(ways)}")
    return ways[kind]


def ssh_address(stack: Stack, connection: Mapping[str, Any]) -> SshAddress:
    """Return the sshd of a machine that is reached by SSH.

    Raises:
        Failure: its host key is not in the file of `ssh_files`.
    """
    found = SshAddress(str(connection["address"]), int(connection.get("port", 22)))
    _, known_hosts = ssh_files(stack, connection)
    # ssh takes the address alone for every port.
    if not any(_is_known(name, known_hosts) for name in {found.known_as, found.address}):
        raise Failure(
            f"the host key of {found.known_as} is not in {known_hosts}",
            remedy=_REMEDIES[connection["kind"]].format(
                port=found.port, address=found.address, known_hosts=known_hosts
            ),
            code=NOT_THERE,
        )
    return found


def _is_known(name: str, known_hosts: Path) -> bool:
    """Ask ssh-keygen, which knows names that are hashed, as Debian's ssh writes them, and patterns."""
    argv = [program("ssh-keygen"), "-F", name, "-f", str(known_hosts)]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def ssh_files(stack: Stack, connection: Mapping[str, Any]) -> tuple[Path, Path]:
    """Return the files of the key and of host keys: a person's own for existing hosts, else the stack's."""
    from tidepool.infrastructures.connection import ssh_folder

    if connection["kind"] == "host":
        return Path(str(connection["key"])), Path(str(connection["known_hosts"]))
    folder = ssh_folder(stack.data, str(connection["stack"]))
    return folder / "key", folder / "known_hosts"


def program(name: str) -> str:
    """The path of one of OpenSSH's programs.

    Raises:
        Failure: it is not there.
    """
    found = shutil.which(name)
    if found is None:
        raise Failure(f"there is no {name} on PATH", remedy="apt-get install openssh-client")
    return found


def ssh_options(key: str, known_hosts: str, port: int = 22, *, log_level: str = "ERROR") -> list[str]:
    """Return options for that key and that file of host keys, and for nothing of the person's own configuration.

    At ``ERROR`` what a host tells all who log in is not shown; at ``INFO`` it is, and why PAM lets somebody not in.
    """
    options = {
        "IdentityFile": key,
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": known_hosts,
        "GlobalKnownHostsFile": "none",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "PreferredAuthentications": "publickey",
        "ConnectTimeout": str(_CONNECT_S),
        "LogLevel": log_level,
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["-F", "none", *words, "-p", str(port)]


def _in_machine(
    stack: Stack, connection: Connection, command: Sequence[str], _terminal: bool
) -> tuple[str, ...]:
    from tidepool.infrastructures.local.kernel import enter_prefix

    return (*enter_prefix(stack.data, str(connection["stack"]), str(connection["machine"])), *command)


def _over_ssh(
    stack: Stack, connection: Connection, command: Sequence[str], terminal: bool
) -> tuple[str, ...]:
    ssh, place = program("ssh"), ssh_address(stack, connection)
    key, known_hosts = ssh_files(stack, connection)
    user = str(connection["user"])
    # On existing hosts somebody logs in who may become root without a password.
    as_root = command if user == "root" else ("sudo", "-n", "--", *command)
    return (
        ssh,
        *ssh_options(str(key), str(known_hosts), place.port),
        "-t" if terminal else "-T",
        *("-l", user, "--", place.address),
        # It is a shell's line there.
        shlex.join(as_root),
    )


_Way = Callable[[Stack, Connection, Sequence[str], bool], tuple[str, ...]]
#: By the kinds of connections.
_WAYS: Final[Mapping[str, _Way]] = {"local": _in_machine, "ssh": _over_ssh, "host": _over_ssh}
