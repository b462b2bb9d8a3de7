"""The program that Slurm's power saving calls: it writes down which nodes are asked for or given back, and ends.

This file is on slurmctld's machine, where there is Python and nothing else of Tidepool's, and slurmctld waits for it:
it imports `os` and what an interpreter has loaded anyway, and nothing of ours. There it is run as ``python3 -I -S``:

    power_request.py up|down HOSTLIST     a request, durable when this ends
    power_request.py take                 forget those whose names are on standard input, and print the others

A request is a file of its own, complete when it has its name. Names are in the order in which requests came. Who took
requests names them with the next ``take``, after having written them down; until then they stay. ``take`` prints a line
for each: its name, ``up`` or ``down``, the hostlist; and at last ``end``.
"""

import os
import sys
import time

#: The folder where requests wait; TIDEPOOL_POWER_SPOOL names another.
SPOOL = "/var/spool/slurmctld/power"
#: So many are taken at a time; the others with the next call.
MOST_AT_A_TIME = 1000

_OF_HOSTLISTS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._,[]-")
_DIGITS_OF_A_NAME = 20


def is_request(name: str) -> bool:
    """Return whether a file of this name is one, and not something half-written or somebody's."""
    moment, _, pid = name.partition("-")
    return len(moment) == _DIGITS_OF_A_NAME and moment.isdecimal() and pid.isdecimal()


def write(spool: str, what: str, nodes: str) -> str:
    """Write a request down; its name."""
    # Whatever the clock did since: later requests have later names than all that wait.
    last = max(filter(is_request, os.listdir(spool)), default="0-")
    moment = max(time.time_ns(), int(last.partition("-")[0]) + 1)
    name = f"{moment:0{_DIGITS_OF_A_NAME}d}-{os.getpid()}"
    unfinished = f"{spool}/.{name}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, f"{what} {nodes}\n".encode("ascii"))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(unfinished, f"{spool}/{name}")
    folder = os.open(spool, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return name


def take(spool: str, done: list[str]) -> list[str]:
    """Forget the requests ``done``; a line for each of those that are left, the oldest first."""
    for name in filter(is_request, done):
        try:
            os.unlink(f"{spool}/{name}")
        except FileNotFoundError:
            pass  # an answer of ours was lost, and this is said again
    lines = []
    for name in sorted(filter(is_request, os.listdir(spool)))[:MOST_AT_A_TIME]:
        with open(f"{spool}/{name}", encoding="ascii", errors="replace") as file:
            lines.append(f"{name} {' '.join(file.read().split())}")
    return lines


def main(arguments: list[str], spool: str) -> int:
    """The exit code: 0, 1 where it could not be written down, 2 where it was called wrongly."""
    match arguments:
        case ["take"]:
            print("\n".join([*take(spool, sys.stdin.read().split()), "end"]))
        case ["up" | "down" as what, nodes] if nodes and _OF_HOSTLISTS.issuperset(nodes):
            write(spool, what, nodes)
        case ["up" | "down", nodes]:
            sys.stderr.write(f"error: {nodes!r} is no hostlist; write names such as cpu-[1-4]\n")
            return 2
        case _:
            sys.stderr.write("usage: tidepool power-up HOSTLIST, tidepool power-down HOSTLIST\n")
            return 2
    return 0


def run(arguments: list[str]) -> int:
    """`main`, with what goes wrong in words."""
    spool = os.environ.get("TIDEPOOL_POWER_SPOOL") or SPOOL
    try:
        return main(arguments, spool)
    except OSError as error:
        sys.stderr.write(
            f"error: {spool} cannot be used: {error.strerror or error}; it is slurmctld's folder of requests, on its "
            "machine; TIDEPOOL_POWER_SPOOL names another\n"
        )
        return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
