"""Homes as root sees them who may set quotas: in their machine, or from this one where the machine is of its kernel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidepool.clients.files.homes import HomeFolder
from tidepool.clients.here import Here
from tidepool.clients.transport import Unreachable
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.local import kernel


def home_folder(connection: Mapping[str, Any], data: Path, folder: str, scope: str) -> HomeFolder:
    """Return the homes in ``folder`` of the machine of ``connection``.

    Root in a machine of this machine's may not set quotas of its file systems: it is done from outside.

    Raises:
        Unreachable: a machine of this machine's does not run.
    """
    match connection:
        case {"kind": "local", "stack": str(stack), "machine": str(machine)}:
            found = kernel.read_machine(data, stack, machine)
            if found is None or found.pid is None:
                raise Unreachable(
                    f"machine {machine} of stack {stack} does not run",
                    where="on this machine",
                    remedy="`tidepool up` boots it again",
                )
            return HomeFolder(Here(), f"/proc/{found.pid}/root{folder}", scope, sys.executable)
    return HomeFolder(transport(connection, data), folder, scope)
