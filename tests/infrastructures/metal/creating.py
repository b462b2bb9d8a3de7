"""Creates a machine as the provider does, in a process that may be killed: python -m tests.infrastructures.metal.creating DATA."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.infrastructures.metal.disk_hosts import a_machine, a_task
from tidepool.infrastructures.metal.kinds import MetalMachineKind
from tidepool.resources.kind import Home

if __name__ == "__main__":
    data, iso, disk_image = sys.argv[1:]
    home = Home(Path(data), Path(data))
    kind = MetalMachineKind(home, sleep=lambda _: time.sleep(0.02), silence=lambda _: "")
    sys.stdout.write(kind.create(a_machine(Path(iso), disk_image), a_task()).id)
