"""One request to an API server and its answer, over connections that are kept; within a time, or with an error."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tidepool.clients.kubernetes.contract import Malformed, TimedOut, Unauthorized, Unreachable
from tidepool.clients.kubernetes.kubeconfig import Access, Credential

#: Opens a connection to a host's port, within so many seconds; OSError where it cannot.
Dial = Callable[[str, int, float], socket.socket]

_CHUNK: Final = 1 << 20
#: More than any page is.
_MOST: Final = 256 << 20


def dial_here(host: str, port: int, timeout_s: float) -> socket.socket:
    """A connection from the network that this process is in."""
    return socket.create_connection((host, port), timeout_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole of what came back."""

    status: int
    body: bytes


class Stream:
    """Lines of an answer that goes on. One thread reads them; another may end it."""

    def __init__(self, status: int, response: http.client.HTTPResponse, sock: socket.socket) -> None:
        self.status = status
        self._response = response
        self._sock = sock

    def lines(self) -> Iterator[bytes]:
        """Yield each line when it is there, until the server or `end` ends it.

        Raises:
            OSError: the connection broke.
        """
        with contextlib.suppress(http.client.IncompleteRead):
            while line := self._response.readline():
                yield line

    def end(self) -> None:
        """Have who reads it come to the end."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)


class Exchange:
    """Asks one API server, from several threads at once. Each request has its answer within ``timeout_s``, or ends."""

    def __init__(self, access: Access, dial: Dial = dial_here, timeout_s: float = 15.0) -> None:
        self.where = access.where
        self._access = access
        self._dial = dial
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: list[_Link] = []
        self._known: tuple[Credential, ssl.SSLContext] | None = None
        self._is_closed = False

    def ask(
        self, method: str, path: str, body: bytes = b"", *, content: str = "", changes: bool = False
    ) -> Answer:
        """Send a request, and wait for the whole answer. One that ``changes`` something is never sent twice.

        ``path`` has the query with it, ``content`` is the body's type.

        Raises:
            TimedOut: no answer came in time; or, to a change, no whole one: it may have been made.
            Unreachable: there is no answer to be had.
            Unauthorized: there is no credential to ask with.
            Malformed: the answer is no HTTP.
        """
        deadline = time.monotonic() + self._timeout_s
        headers = {"Accept": "application/json", "User-Agent": "tidepool"}
        if content:
            headers["Content-Type"] = content
        credential, context = self._who(deadline)
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        while True:
            link = self._take(credential)
            is_kept = link is not None
            if link is None:
                link = self._connect(credential, context, deadline)
            try:
                answer, is_open = link.exchange(method, self._access.prefix + path, body, headers, deadline)
            except TimeoutError:
                link.close()
                raise self._late() from None
            except (OSError, http.client.HTTPException) as fault:
                link.close()
                if is_kept and not changes:
                    continue  # it was closed while it was kept: on a new one the server says whether it is there
                said = f"the answer of {self.where} broke off: {fault!r}"
                if changes:
                    raise TimedOut(f"{said}; what was asked may have been done: look again") from fault
                if isinstance(fault, ssl.SSLError):
                    raise self._refused(fault) from fault
                if isinstance(fault, http.client.HTTPException) and not isinstance(
                    fault, http.client.RemoteDisconnected | http.client.IncompleteRead
                ):
                    symptom = f"does not speak HTTP: {fault!r}"
                    raise Malformed(f"{self.where} {symptom}", symptom) from fault
                raise Unreachable(
                    f"{said}; see whether it runs", f"broke off its answer: {fault!r}"
                ) from fault
            except BaseException:
                link.close()
                raise
            if is_open:
                self._return_link(link)
            else:
                link.close()
            return answer

    @contextlib.contextmanager
    def stream(self, path: str, lasts_s: float) -> Iterator[Stream]:
        """Ask for something that goes on, as a watch does, on a connection of its own; the server ends it within ``lasts_s`` seconds.

        Raises:
            KubernetesError: as `ask` does, where it does not begin.
        """
        deadline = time.monotonic() + self._timeout_s
        credential, context = self._who(deadline)
        headers = {"Accept": "application/json", "User-Agent": "tidepool"}
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        link = self._connect(credential, context, deadline)
        try:
            yield link.begin(self._access.prefix + path, headers, deadline, lasts_s)
        except TimeoutError:
            raise self._late() from None
        except (OSError, http.client.HTTPException) as fault:
            raise Unreachable(
                f"the answer of {self.where} broke off: {fault!r}; see whether it runs",
                f"broke off: {fault!r}",
            ) from fault
        finally:
            link.close()

    def close(self) -> None:
        """Let go of all connections; those that answers come on end with their answer."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _who(self, deadline: float) -> tuple[Credential, ssl.SSLContext]:
        with self._lock:
            known = self._known
        if known is None or known[0].until <= datetime.now(UTC):
            credential = self._access.credential(max(deadline - time.monotonic(), 0.001))
            context = known[1] if known and _same_pair(known[0], credential) else self._context(credential)
            known = credential, context
            with self._lock:
                self._known = known
        return known

    def _context(self, credential: Credential) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=self._access.authority or None)
        except (ssl.SSLError, ValueError) as fault:
            raise Unreachable(
                f"the kubeconfig's certificate authority of {self.where} is no certificate: {fault}"
            ) from fault
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = _Socket
        if credential.certificate:
            # OpenSSL reads keys from files only. This one is in memory, and no one else's.
            file = os.memfd_create("key", os.MFD_CLOEXEC)
            try:
                with open(file, "wb", closefd=False) as pair:
                    pair.write(f"{credential.certificate}\n{credential.key}\n".encode())
                context.load_cert_chain(f"/proc/self/fd/{file}")
            except ssl.SSLError as fault:
                raise Unauthorized(
                    f"the kubeconfig's client certificate for {self.where} and its key do not fit: {fault}"
                ) from fault
            finally:
                os.close(file)
        return context

    def _connect(self, credential: Credential, context: ssl.SSLContext, deadline: float) -> _Link:
        access = self._access
        try:
            plain = self._dial(access.host, access.port, _left(deadline))
        except TimeoutError:
            raise self._late() from None
        except OSError as fault:
            symptom = f"does not answer: {fault.strerror or fault}"
            remedy = "see whether it runs, and whether it is reached from here"
            raise Unreachable(f"{self.where} {symptom}; {remedy}", symptom) from fault
        try:
            plain.settimeout(_left(deadline))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock = context.wrap_socket(plain, server_hostname=access.server_name)
            assert isinstance(sock, _Socket)
            return _Link(sock, credential)
        except TimeoutError:
            plain.close()
            raise self._late() from None
        except (OSError, ValueError) as fault:
            plain.close()
            raise self._refused(fault) from fault

    def _take(self, credential: Credential) -> _Link | None:
        """A connection that was kept, and is as it was left."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if link.is_quiet() and _same_pair(link.credential, credential):
                return link
            link.close()

    def _return_link(self, link: _Link) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(link)
                return
        link.close()

    def _late(self) -> TimedOut:
        symptom = f"did not answer within {self._timeout_s:g} s"
        return TimedOut(f"{self.where} {symptom}: see whether it hangs, or allow more time", symptom)

    def _refused(self, fault: Exception) -> Unreachable:
        if isinstance(fault, ssl.SSLCertVerificationError):
            symptom = f"is not the one that the kubeconfig means: {fault.verify_message}"
            return Unreachable(f"{self.where} {symptom}; see which certificate it has", symptom)
        symptom = f"does not agree on TLS: {fault}"
        return Unreachable(f"{self.where} {symptom}; see whether it is an API server", symptom)


class _Socket(ssl.SSLSocket):
    """Every wait on it ends with the deadline, also that for a slow answer's next byte."""

    deadline = 0.0

    def sendall(self, data: Any, flags: int = 0) -> None:
        self.settimeout(_left(self.deadline))
        super().sendall(data, flags)

    def recv_into(self, *arguments: Any) -> int:
        if self.deadline <= time.monotonic():
            raise TimeoutError
        self.settimeout(_left(self.deadline))
        return super().recv_into(*arguments)


class _Link:
    """One connection, used by one request at a time."""

    def __init__(self, sock: _Socket, credential: Credential) -> None:
        self.credential = credential
        self._sock = sock
        self._http = http.client.HTTPConnection("localhost")
        self._http.auto_open = 0
        self._http.sock = sock

    def is_quiet(self) -> bool:
        """Return whether nothing came since the last answer: what comes unasked is the connection's end."""
        waiting = select.poll()
        waiting.register(self._sock, select.POLLIN | select.POLLHUP | select.POLLERR)
        return not self._sock.pending() and not waiting.poll(0)

    def exchange(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], deadline: float
    ) -> tuple[Answer, bool]:
        """The answer, and whether the connection can be used again."""
        self._sock.deadline = deadline
        self._http.request(method, path, body or None, dict(headers))
        with contextlib.closing(self._http.getresponse()) as response:
            parts, length = [], 0
            while chunk := response.read(_CHUNK):
                parts.append(chunk)
                length += len(chunk)
                if length > _MOST:
                    raise http.client.HTTPException(f"an answer of more than {_MOST} bytes")
            if response.length:  # read in pieces, the library does not mind that some are missing
                raise http.client.IncompleteRead(b"", response.length)
        return Answer(response.status, b"".join(parts)), not response.will_close

    def begin(self, path: str, headers: Mapping[str, str], deadline: float, lasts_s: float) -> Stream:
        """Send a request, and return its answer once the first of it is there."""
        self._sock.deadline = deadline
        self._http.request("GET", path, None, dict(headers))
        response = self._http.getresponse()
        self._sock.deadline = deadline + lasts_s
        return Stream(response.status, response, self._sock)

    def close(self) -> None:
        self._http.close()


def _same_pair(one: Credential, other: Credential) -> bool:
    return (one.certificate, one.key) == (other.certificate, other.key)


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
