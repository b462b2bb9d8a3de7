"""A command in a container, as `kubectl exec` runs it: over a WebSocket (RFC 6455), through the API server and the kubelet."""

from __future__ import annotations

import base64
import io
import os
import ssl
import struct
import tempfile
from urllib.parse import urlencode

from tidepool.clients.kubernetes.exchange import Dial
from tidepool.clients.kubernetes.kubeconfig import Access

_STDOUT, _ERROR = 1, 3
_CLOSE = 8


def execute(access: Access, dial: Dial, pod: str, *command: str) -> str:
    """What the command says on stdout; the channel of errors has to say that it went well."""
    words = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
    path = f"/api/v1/namespaces/default/pods/{pod}/exec?{urlencode(words)}"
    context = ssl.create_default_context(cadata=access.authority)
    credential = access.credential(5)
    with tempfile.NamedTemporaryFile("w") as pair:
        pair.write(credential.certificate + credential.key)
        pair.flush()
        context.load_cert_chain(pair.name)
    with context.wrap_socket(dial(access.host, access.port, 10), server_hostname=access.server_name) as link:
        link.settimeout(20)
        key = base64.b64encode(os.urandom(16)).decode()
        link.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {access.host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n".encode()
        )
        stream = link.makefile("rb")
        status = stream.readline().decode()
        assert " 101 " in status, status + stream.read(2000).decode(errors="replace")
        while stream.readline().strip():
            pass
        said = {_STDOUT: b"", _ERROR: b""}
        while (frame := _frame(stream)) is not None:
            if frame:
                said[frame[0]] = said.get(frame[0], b"") + frame[1:]
        assert b'"status":"Success"' in said[_ERROR], said
        return said[_STDOUT].decode()


def _frame(stream: io.BufferedIOBase) -> bytes | None:
    """The payload of the next one; None where there are no more."""
    head = stream.read(2)
    if len(head) < 2 or head[0] & 15 == _CLOSE:
        return None
    size = head[1] & 127
    if size == 126:
        (size,) = struct.unpack(">H", stream.read(2))
    elif size == 127:
        (size,) = struct.unpack(">Q", stream.read(8))
    return stream.read(size)
