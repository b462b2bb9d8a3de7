"""The tests' own router of a VPC."""

from __future__ import annotations

import subprocess

from tests.infrastructures.aws.router import make_router
from tests.infrastructures.local.conftest import stack  # noqa: F401 - a fixture
from tests.infrastructures.local.stacks import CIDR, PYTHON, Stack
from tidepool.infrastructures.local.kernel import NetworkSpec, wait_ready

#: None of the network's: the router alone knows who has it.
_ADDRESS = "10.80.1.1"
#: To a port where nobody is. What a router says of a shorter way, such a socket looks at whatever it is doing.
_SENDING = (
    "import socket, sys, time\n"
    "sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "for _ in range(5):\n"
    "    sender.sendto(b'.', (sys.argv[1], 9))\n"
    "    time.sleep(0.1)\n"
)


def test_a_route_to_another_machine_is_taken_at_once(stack: Stack) -> None:  # noqa: F811
    network = stack.network()
    make_router(network.prefix)
    gateway = NetworkSpec(stack.name, network.name, CIDR).switch_address
    for number in (1, 2, 3):
        pid = stack.create(stack.answering(number)).pid
        inside = ("nsenter", f"--net=/proc/{pid}/ns/net", "--", "ip")
        ip(*inside, "route", "add", "default", "via", gateway)
        if number > 1:
            ip(*inside, "address", "add", f"{_ADDRESS}/32", "dev", "lo")
        wait_ready(stack.data, stack.name, f"cpu-{number}", 20)
    for number in (2, 3):
        ip(*network.prefix, "ip", "route", "replace", f"{_ADDRESS}/32", "via", stack.spec(number).address)
        stack.run(PYTHON, "-c", _SENDING, _ADDRESS)
        assert stack.ask(_ADDRESS, on="cpu-1") == f"cpu-{number} of {stack.name}"


def ip(*argv: str) -> None:
    subprocess.run(argv, check=True, timeout=30)
