"""The boot service of stacks, as an administrator runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def served(data: Path, listen: str, prefix: Sequence[str] = ()) -> Iterator[None]:
    """What hosts of the stacks ask for, whose data are there, is served at an address with a port; ``prefix`` leads to its network."""
    module = "tidepool.infrastructures.boot_media.service"
    command = [*prefix, sys.executable, "-P", "-m", module, "--listen", listen]
    environment = {"PATH": "/usr/sbin:/usr/bin", "TIDEPOOL_DATA": str(data)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as it:
        try:
            assert it.stdout is not None
            assert it.stdout.readline() == f"the stacks of {data} are served at http://{listen}\n"
            yield
        finally:
            it.kill()
