"""How long slurmctld waits for what its power saving calls: from the call to its end, with the request on disk.

    python bench/power.py [--calls 200] [--write docs/benchmarks/power.md]

The program as it lies on slurmctld's machine (a bare interpreter), and the verb `tidepool power-up`. The interpreter's own
start, with nothing to do, stands beside them.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.page import add_page_option  # noqa: E402
from tidepool.scaling.power.request import take  # noqa: E402

#: Of the issue, in milliseconds.
TARGET_MS: Final = 50.0
_PYTHON: Final = "/usr/bin/python3"
_PROGRAM: Final = str(ROOT / "tidepool" / "scaling" / "power" / "request.py")
_NODES: Final = "cpu-[1-1000]"
CALLS: Final[dict[str, Sequence[str]]] = {
    "an interpreter that does nothing": (_PYTHON, "-I", "-S", "-c", "pass"),
    "power-up, as slurmctld calls it": (_PYTHON, "-I", "-S", _PROGRAM, "up", _NODES),
    "`tidepool power-up`": (str(Path(sys.executable).with_name("tidepool")), "power-up", _NODES),
}


def measured_ms(argv: Sequence[str], spool: str, calls: int) -> tuple[list[float], float]:
    """Milliseconds of each call, sorted; and of a processor, for one."""
    found, before = [], _processor_s()
    for _ in range(calls):
        began = time.perf_counter()
        subprocess.run(argv, env={"TIDEPOOL_POWER_SPOOL": spool, "PYTHONPATH": str(ROOT)}, check=True)
        found.append((time.perf_counter() - began) * 1e3)
    return sorted(found), (_processor_s() - before) / calls * 1e3


def _processor_s() -> float:
    """Of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(calls: int) -> str:
    """A row for each way."""
    rows = [
        "| call | p50, ms | p95, ms | p99, ms | of a processor, ms | target |",
        "|---|---:|---:|---:|---:|---|",
    ]
    with tempfile.TemporaryDirectory() as spool:
        for name, argv in CALLS.items():
            waits, processor = measured_ms(argv, spool, calls)
            p95, p99 = (waits[int(len(waits) * share)] for share in (0.95, 0.99))
            target = f"< {TARGET_MS:g} ms" if "power-up" in name else ""
            rows.append(
                f"| {name} | {statistics.median(waits):.1f} | {p95:.1f} | {p99:.1f} | {processor:.1f} | {target} |"
            )
            # As the daemon does, so that the folder does not fill.
            waiting = [line.split()[0] for line in take(spool, [])]
            while waiting:
                waiting = [line.split()[0] for line in take(spool, waiting)]
    return "\n".join(rows)


def main() -> None:
    """Measure, print, and write it between the marks of the page."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--calls", type=int, default=200)
    add_page_option(arguments)
    chosen = arguments.parse_args()
    rows = table(chosen.calls)
    print(rows)
    if chosen.write is not None:
        chosen.write.write(f"{rows}\n")


if __name__ == "__main__":
    main()
