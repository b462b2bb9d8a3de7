"""A host in a namespace of a test's own, and a world outside of it: no packet leaves this machine, and its tables stay."""

from __future__ import annotations

import ctypes
import json
import os
import select
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.infrastructures.local.stacks import PYTHON

HOST, LICENCES, OTHER, FAR = "192.0.2.1", "192.0.2.7", "192.0.2.8", "203.0.113.5"
#: Answers every line of a connection with the caller's address and the line, for as long as it is open.
ECHO = (
    "import socket, sys, threading\n"
    "def serve(connection, caller):\n"
    "    for line in connection.makefile():\n"
    "        connection.sendall(f'{sys.argv[2]} to {caller[0]}: {line}'.encode())\n"
    "server = socket.create_server(('0.0.0.0', int(sys.argv[1])))\n"
    "print('listening', flush=True)\n"
    "while True:\n"
    "    threading.Thread(target=serve, args=server.accept(), daemon=True).start()\n"
)
#: Connects from an address (or any), and says each line of its input there: the answer, or why there is none.
ASK = (
    "import socket, sys\n"
    "try:\n"
    "    source = (sys.argv[4], 0) if sys.argv[4] else None\n"
    "    way = socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]), source)\n"
    "    answers = way.makefile()\n"
    "    for line in sys.stdin:\n"
    "        way.sendall(line.encode())\n"
    "        print(answers.readline() or 'the other side closed it', end='', flush=True)\n"
    "except OSError as error:\n"
    "    print(f'refused: {error}', flush=True)\n"
)
#: A packet that is dropped is waited for in vain; one that is refused is told of before that.
PATIENCE_S = "3"


@dataclass(frozen=True)
class Outside:
    """The world: a namespace with addresses of its own, which has a route for whatever it knows of the host's."""

    pid: int
    ends: ExitStack

    def ask(self, port: int, address: str = HOST, source: str = "") -> str:
        """What somebody outside is told at a port of the host."""
        return asked([*_within(self.pid), PYTHON, "-c", ASK, address, str(port), PATIENCE_S, source])

    def serve(self, port: int, *, here: bool = False) -> None:
        """Answer at a port outside, or on the host."""
        prefix = [] if here else _within(self.pid)
        server = subprocess.Popen(
            [*prefix, PYTHON, "-c", ECHO, str(port), "the host" if here else "outside"],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ends.enter_context(server)
        self.ends.callback(server.kill)
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"


def asked(command: list[str]) -> str:
    """What one line is answered."""
    done = subprocess.run(command, input="hello\n", capture_output=True, text=True, timeout=30, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Conversation:
    """A connection that stays open."""

    process: subprocess.Popen[str]

    def say(self, line: str, patience_s: float) -> str | None:
        """The answer; None where none comes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        if not select.select([self.process.stdout], [], [], patience_s)[0]:
            return None
        said = self.process.stdout.readline().strip()
        return None if said.startswith("refused") else said


@contextmanager
def conversation(command: list[str]) -> Iterator[Conversation]:
    """Hold a conversation by a command as `ASK`."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Conversation(process)
        finally:
            process.kill()


def ruleset() -> str:
    """All tables of the host, without what their counters count."""
    return subprocess.run(["nft", "-s", "list", "ruleset"], capture_output=True, text=True, check=True).stdout


def devices() -> list[str]:
    """The host's interfaces."""
    done = subprocess.run(["ip", "-json", "link"], capture_output=True, text=True, check=True)
    return sorted(link["ifname"] for link in json.loads(done.stdout))


@contextmanager
def world() -> Iterator[Outside]:
    """Be on a host of the test's own, which forwards, with a world outside of it; afterwards be where one was."""
    with ExitStack() as ends, _another_network():
        held = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE
        )
        ends.enter_context(held)
        ends.callback(held.kill)
        assert held.stdout is not None
        held.stdout.readline()
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        # It has what an administrator made there, which nobody may touch.
        table = "table inet others { chain input { type filter hook input priority 0; policy accept; counter; }; }"
        subprocess.run(["nft", table], check=True)
        _ip([], "link set lo up", f"link add wan type veth peer name lan netns {held.pid}")
        _ip([], f"addr add {HOST}/24 dev wan", "link set wan up", f"route add default via {LICENCES}")
        _ip(
            _within(held.pid),
            "link set lo up",
            *(f"addr add {address}/24 dev lan" for address in (LICENCES, OTHER)),
            f"addr add {FAR}/32 dev lo",
            "link set lan up",
            f"route add default via {HOST}",
        )
        yield Outside(held.pid, ends)


def _within(pid: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


def _ip(prefix: list[str], *lines: str) -> None:
    subprocess.run([*prefix, "ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


_CLONE_NEWNET = 0x40000000


@contextmanager
def _another_network() -> Iterator[None]:
    """Have this thread, and what it starts, in a network of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        assert libc.unshare(_CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        assert libc.setns(before, _CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        os.close(before)
