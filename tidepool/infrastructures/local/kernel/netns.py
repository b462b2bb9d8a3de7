"""Programs of the host, run in a network namespace that is known by a process in it: `ip`, `nft`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Final

from tidepool.infrastructures.local.kernel.errors import LocalError, TimedOut
from tidepool.infrastructures.local.kernel.lifeline import Lifeline

_PROGRAM_S: Final = 30.0
_PACKAGES: Final = {"ip": "iproute2", "nft": "nftables", "nsenter": "util-linux"}


def run_ip(where: Lifeline | None, lines: Sequence[str]) -> bool:
    """Run a batch of ``ip`` commands in a process's network, or the host's; False where that process is gone.

    Raises:
        LocalError: what ``ip`` said.
    """
    done = run_in(where, ("ip", "-batch", "-"), "".join(f"{line}\n" for line in lines))
    if done is None:
        return False
    if done.returncode:
        raise LocalError(f"ip refused ({'; '.join(lines)}): {done.stderr.strip()}")
    return True


def listed(where: Lifeline | None, *command: str) -> str:
    """The output of a program that lists something; nothing where it finds nothing, or the process is gone."""
    done = run_in(where, command)
    return "" if done is None or done.returncode else done.stdout


def run_in(
    where: Lifeline | None, command: Sequence[str], stdin: str = ""
) -> subprocess.CompletedProcess[str] | None:
    """Run a program in a process's network, or the host's; None where that process is gone.

    Raises:
        LocalError: the program is not there; says which package has it.
        TimedOut: it does not end.
    """
    namespace = None
    if where is not None:
        namespace = where.open_network_namespace()
        if namespace is None:
            return None
        command = ["nsenter", f"--net=/proc/self/fd/{namespace}", *command]
    try:
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            pass_fds=() if namespace is None else (namespace,),
            timeout=_PROGRAM_S,
            check=False,
        )
    except FileNotFoundError as error:
        packages = " ".join(sorted({_PACKAGES.get(name, name) for name in (command[0], "ip")}))
        raise LocalError(f"{error.filename} is not on PATH: apt-get install {packages}") from None
    except subprocess.TimeoutExpired:
        raise TimedOut(f"{command[0]} did not end within {_PROGRAM_S:g} s") from None
    finally:
        if namespace is not None:
            os.close(namespace)
