"""Claims on the host's processors: two campaigns that measured on the same ones at once would measure each other.

A claim is a socket of the kernel's abstract namespace for each processor: it leaves nothing behind, and is gone with its process,
however that ends. Who has one is told by the kernel to whoever connects (unix(7), SO_PEERCRED).
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from tidepool.lab.errors import LabError

_CREDENTIALS: Final = struct.Struct("3i")


@contextmanager
def claim(processors: Collection[int], space: str = "tidepool/lab") -> Iterator[None]:
    """Have processors of this host to oneself, as far as laboratories are concerned.

    Raises:
        LabError: another process has one of them; says which process.
    """
    with ExitStack() as claims:
        taken: dict[int, list[int]] = {}
        for processor in sorted(processors):
            address = f"\0{space}/processor-{processor}"
            listening = claims.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            try:
                listening.bind(address)
                listening.listen()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                taken.setdefault(_holder(address), []).append(processor)
        if taken:
            said = "; ".join(
                f"{_numbers(numbers)} {'is' if len(numbers) == 1 else 'are'} measured on by {_described(pid)}"
                for pid, numbers in taken.items()
            )
            raise LabError(
                f"{said}: wait for its end, or name other processors (`processors` in the laboratory's file)"
            )
        yield


def _holder(address: str) -> int:
    """The id of the process that has it; 0 where it has ended just now."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking, suppress(ConnectionRefusedError):
        asking.connect(address)
        pid, _, _ = _CREDENTIALS.unpack(
            asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        return int(pid)
    return 0


def _described(pid: int) -> str:
    if not pid:
        return "a laboratory that has just ended"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        folder = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({b' '.join(words).decode(errors='replace').strip()}, in {folder})"


def _numbers(processors: list[int]) -> str:
    return (
        f"processor {processors[0]}"
        if len(processors) == 1
        else f"processors {', '.join(map(str, processors))}"
    )
