"""Commands on another machine, over one kept connection of SSH."""

from __future__ import annotations

import logging
import shlex
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import paramiko

from tidepool.clients.here import PATH
from tidepool.clients.transport import Completed, Unreachable, command_name, late

#: What paramiko logs is raised here as an error; without a handler Python would print its tracebacks.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_CHUNK: Final = 1 << 18
_KEEPALIVE_S: Final = 15
_CONNECT_S: Final = 10.0
#: A machine that boots on little processor takes long for a key.
_AUTHENTICATION_S: Final = 30.0
#: How many commands run at a time over one connection: sshd lets ten sessions be open (MaxSessions).
_SESSIONS: Final = 8
#: How much longer than here the command may run there, so that it is this side that tells of the time-out.
_REMOTE_GRACE_S: Final = 2.0


class Ssh:
    """Runs commands on ``host`` as ``user``, with the private key in the file ``key`` and no other.

    The host's key must stand in the file ``known_hosts``; one that does not is refused, never learned. The connection
    is made with the first command and kept; where it is found broken it is made again, once, before a command is
    sent, and never after, for that one may have been carried out. ``environment`` is what commands see beside PATH.
    Commands are killed there too, by `timeout` of coreutils, when they take too long. Threads share it; of more commands than
    sshd lets run at a time, some wait.
    """

    def __init__(
        self,
        host: str,
        *,
        user: str,
        key: Path,
        known_hosts: Path,
        port: int = 22,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._host, self._port, self._user = host, port, user
        self._key, self._known_hosts = key, known_hosts
        self._environment = {"PATH": PATH, **(environment or {})}
        self._client: paramiko.SSHClient | None = None
        self._connecting = threading.Lock()
        self._sessions = threading.Semaphore(_SESSIONS)
        self._running = 0

    @property
    def where(self) -> str:
        return f"on {self._user}@{self._host}" + (f":{self._port}" if self._port != 22 else "")

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float) -> Completed:
        deadline = time.monotonic() + timeout_s
        if not self._sessions.acquire(timeout=timeout_s):
            raise late(argv, timeout_s, self.where)
        try:
            return self._run(argv, stdin.encode(), deadline, timeout_s)
        finally:
            self._sessions.release()

    def close(self) -> None:
        """Close the connection, unless a command of somebody else runs over it; the next command makes it again."""
        with self._connecting:
            if self._running == 0:
                self._drop()

    def _run(self, argv: Sequence[str], stdin: bytes, deadline: float, timeout_s: float) -> Completed:
        channel = self._channel(deadline)
        try:
            return self._exchange(channel, argv, stdin, deadline)
        except TimeoutError:
            raise late(argv, timeout_s, self.where) from None
        except (paramiko.SSHException, EOFError, OSError) as fault:
            raise Unreachable(
                f"the connection broke while {command_name(argv)} ran, which may have done its work: {fault}",
                where=self.where,
                remedy="look before you ask again",
            ) from fault
        finally:
            channel.close()
            with self._connecting:
                self._running -= 1

    def _exchange(
        self, channel: paramiko.Channel, argv: Sequence[str], stdin: bytes, deadline: float
    ) -> Completed:
        remote_s = max(deadline - time.monotonic(), 0.0) + _REMOTE_GRACE_S
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        # sshd hands a string to the user's shell: every word is quoted, and it does nothing but start them.
        channel.settimeout(_left(deadline))
        channel.exec_command(
            "exec " + shlex.join(["env", "-i", *variables, "timeout", "-s", "KILL", f"{remote_s:.3f}", *argv])
        )
        # All three streams at once: a command may write before it reads, and the other way round.
        errors: list[bytes] = []
        reader = threading.Thread(target=_read_all, args=(channel.recv_stderr, errors), daemon=True)
        reader.start()
        threading.Thread(target=_write_all, args=(channel, stdin), daemon=True).start()
        output: list[bytes] = []
        channel.settimeout(_left(deadline))
        while chunk := channel.recv(_CHUNK):
            output.append(chunk)
            channel.settimeout(_left(deadline))
        if not channel.status_event.wait(_left(deadline)):
            raise TimeoutError
        reader.join(_left(deadline))
        if reader.is_alive():
            raise TimeoutError
        if channel.exit_status < 0:
            raise EOFError("it ended without an exit code")
        return Completed(
            channel.exit_status,
            b"".join(output).decode(errors="replace"),
            b"".join(errors).decode(errors="replace"),
        )

    def _channel(self, deadline: float) -> paramiko.Channel:
        """A channel of the kept connection, or of a new one where that is broken."""
        with self._connecting:
            for attempt in ("kept", "new"):
                if self._client is None:
                    self._client = self._connect(deadline)
                    attempt = "new"
                transport = self._client.get_transport()
                try:
                    if transport is None or not transport.is_active():
                        raise EOFError("the connection was closed")
                    # One whose machine is gone says nothing, and there may be another machine there by now.
                    within_s = min(_CONNECT_S, _left(deadline)) if attempt == "kept" else _left(deadline)
                    channel = transport.open_session(timeout=within_s)
                    self._running += 1
                    return channel
                except (paramiko.SSHException, EOFError, OSError) as fault:
                    self._drop()
                    if attempt == "new":
                        raise Unreachable(
                            f"no session was opened: {fault}", where=self.where, remedy="see sshd's log there"
                        ) from fault
            raise AssertionError("the second attempt returns or raises")

    def _connect(self, deadline: float) -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        within_s = min(_CONNECT_S, _left(deadline))
        try:
            client.load_host_keys(str(self._known_hosts))
            sock = socket.create_connection((self._host, self._port), within_s)
            # A command is several small messages: without this each waits for the one before to be acknowledged.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.connect(
                self._host,
                self._port,
                self._user,
                key_filename=str(self._key),
                sock=sock,
                banner_timeout=within_s,
                auth_timeout=min(_AUTHENTICATION_S, _left(deadline)),
                channel_timeout=within_s,
                allow_agent=False,
                look_for_keys=False,
            )
        except (paramiko.SSHException, EOFError, OSError) as fault:
            client.close()
            cause: Exception = fault
            if isinstance(fault, paramiko.AuthenticationException) and "timeout" in str(fault):
                # It says nothing of the key: its processor is busy.
                cause = TimeoutError("sshd did not say in time whether it takes the key")
            raise self._refused(cause) from cause
        transport = client.get_transport()
        if transport is not None:
            transport.set_keepalive(_KEEPALIVE_S)
        return client

    def _refused(self, fault: Exception) -> Unreachable:
        if isinstance(fault, paramiko.BadHostKeyException) or "not found in known_hosts" in str(fault):
            what = "the host's key is not the one that is known"
            remedy = f"compare it with the machine's own, and write it into {self._known_hosts}"
        elif isinstance(fault, paramiko.AuthenticationException):
            what = f"the key {self._key} is not accepted"
            remedy = f"add its public half to the authorized_keys of {self._user} there"
        else:
            what, remedy = "no connection", "see whether the machine is up, and sshd on that port"
        return Unreachable(f"{what}: {fault}", where=self.where, remedy=remedy)

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _left(deadline: float) -> float:
    """Seconds until the deadline; never zero, which would mean not to wait, and never none, which is for ever."""
    return max(deadline - time.monotonic(), 0.001)


def _write_all(channel: paramiko.Channel, stdin: bytes) -> None:
    # That it did not read all of it is the command's affair, and a time-out is told of by who reads stdout.
    with suppress(TimeoutError, EOFError, OSError):
        channel.sendall(stdin)
        channel.shutdown_write()


def _read_all(receive: Callable[[int], bytes], into: list[bytes]) -> None:
    # A time-out is told of by the thread that reads stdout.
    with suppress(TimeoutError, EOFError, OSError):
        while chunk := receive(_CHUNK):
            into.append(chunk)
