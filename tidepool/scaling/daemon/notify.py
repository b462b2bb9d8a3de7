"""Tells whatever started the daemon how it is, where that wants to know: systemd's sd_notify(3)."""

from __future__ import annotations

import socket
from collections.abc import Mapping


def notify(environment: Mapping[str, str], *lines: str) -> None:
    """Send ``READY=1``, ``STATUS=...``, ``STOPPING=1`` or ``WATCHDOG=1`` to NOTIFY_SOCKET, where there is one."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        # Nobody who listens is no reason to end.
        sender.settimeout(1)
        try:
            sender.sendto("\n".join(lines).encode(), address)
        except OSError:
            return
