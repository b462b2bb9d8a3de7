"""A host is asked, claimed and given back, by the keeper that runs there; and the kinds of what fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tidepool.clients.slurm import Completed, SlurmError, Transport
from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.failures import by_words
from tidepool.infrastructures.ssh.keeper import program


class HostError(Exception):
    """A host was not reached, or did not do what it was told. The text says what, where, and the remedy.

    ``kind`` is that of the failure: hosts come back, where nothing else is known.
    """

    def __init__(self, text: str, kind: type[InfrastructureError] = Transient) -> None:
        super().__init__(text)
        self.kind = kind


class Silent(HostError):
    """Nothing answers there: it is down, or not to be reached from here."""


#: Of what programs on a host say. Failures that are told of here have their kind besides.
kind_of: Final = by_words(
    (InsufficientCapacity, ("No space left on device",)),
    (Permanent, ("Read-only file system",)),
    otherwise=Transient,
    flags=0,
)


#: A host that is asked for facts answers at once; one that is claimed looks at its whole disk first.
FACTS_S: Final = 30.0
CLAIM_S: Final = 300.0
#: Packages go one after the other.
RELEASE_S: Final = 900.0

#: What the keeper on a host is told, and says: connection, verb, what it is told, seconds.
Ask = Callable[[Mapping[str, Any], str, Mapping[str, Any], float], Mapping[str, Any]]


def ask(
    connection: Mapping[str, Any], verb: str, told: Mapping[str, Any], timeout_s: float
) -> Mapping[str, Any]:
    """Return the answer of the keeper on the host of a connection.

    Raises:
        HostError: it was not reached, or does not do it; says why, and the remedy.
    """
    if not Path(connection["key"]).is_file():
        raise HostError(f"there is no private key {connection['key']}: name one by `key`")
    if not Path(connection["known_hosts"]).is_file():
        raise HostError(
            f"there is no file {connection['known_hosts']} of hosts' keys: name one by `known_hosts`"
        )
    reached = transport(connection, Path("/"))
    try:
        done = reached.run(
            ["python3", "-I", "-", verb, json.dumps(told)], stdin=program(), timeout_s=timeout_s
        )
    except SlurmError as error:
        raise _refused(error, connection, reached) from error
    finally:
        reached.close()
    return _answer(done, connection, verb)


def _answer(done: Completed, connection: Mapping[str, Any], verb: str) -> Mapping[str, Any]:
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["it says nothing"]
    where = f"{connection['user']}@{connection['address']}"
    if done.exit_code != 0 and said[0].startswith("sudo:") and "python3" not in said[0]:
        raise HostError(
            f"{connection['user']} may not use sudo there without a password ({said[0]}): let it, or log in as root by `user`",
            Permanent,
        )
    if done.exit_code == 127 or "python3: command not found" in said[0]:
        raise HostError(f"there is no python3 on {where}: run there: apt-get install python3")
    if done.exit_code != 0:
        raise HostError(f"{where} cannot be told to {verb}: {said[0]}", kind_of(said[0]))
    answer: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _refused(error: SlurmError, connection: Mapping[str, Any], reached: Transport) -> HostError:
    # They take a tenth of a second to import, which a program is spared that only says what it demands.
    import socket

    import paramiko

    # A number of Pulumi's has a point.
    known, port = connection["known_hosts"], int(connection.get("port", 22))
    address = connection["address"]
    named = address if port == 22 else f"[{address}]:{port}"
    match error.__cause__:
        case paramiko.BadHostKeyException():
            return HostError(
                f"the host's key is not the one that is known in {known}: it was installed anew, or another machine answers. "
                f"Compare it with the one on its console; then ssh-keygen -f {known} -R '{named}', and write the new one there",
                Permanent,
            )
        case paramiko.SSHException() as cause if "not found in known_hosts" in str(cause):
            return HostError(
                f"the host's key is not the one that is known: none of {named} is in {known}. Compare what ssh-keyscan -p "
                f"{port} {address} says with the host's console, and write it there",
                Permanent,
            )
        case paramiko.AuthenticationException():
            return HostError(
                f"the key {connection['key']} is not accepted of {connection['user']}: add its public half to that user's "
                "authorized_keys there; one with a passphrase is of no use here",
                Permanent,
            )
        case socket.gaierror():
            return HostError(
                f"there is no such name {address}: write its address, or mend the name server", Permanent
            )
        case OSError() as cause:
            return Silent(
                f"nothing answers at {address}, port {port} ({cause}): see whether it is up, and sshd on that port"
            )
    return HostError(f"{error.what} {reached.where}: {error.remedy}")
