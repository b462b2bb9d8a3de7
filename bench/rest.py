"""The daemon at rest: what it takes of this machine while a cluster has its nodes, and nothing happens. Needs root.

Real Slurm, real machines, all idle, kept by `min_nodes`; the daemon looks as it always does. Counted are its own
process and all that it starts (looks at Slurm, the engine that is kept warm, the provider that is kept running):
processor time as a share of one core, and memory as the kernel shares it out (PSS). Where a second daemon stands by,
what that takes is told as well.

    python bench/rest.py [--sizes 0,256,1000] [--seconds 60] [--write docs/benchmarks/rest.md]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import engine as engine_bench  # noqa: E402
from bench.local import Stack, scratch  # noqa: E402
from bench.page import add_page_option  # noqa: E402

#: Of the issue, with 1,000 nodes.
SHARE, MEMORY_MIB = 0.03, 200
_SETTLED_S: Final = 30.0
_AT_ONCE: Final = 125
_LIMIT_S: Final = 300.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figures:
    """What a daemon took in ``seconds``: of one core, of memory, by process; and how often it looked."""

    nodes: int
    share: float
    memory_mib: dict[str, float]
    decisions: float

    @property
    def all_mib(self) -> float:
        """Of all of its processes together."""
        return sum(self.memory_mib.values())


class Resting(Stack):
    """A stack whose nodes stay."""

    @contextmanager
    def daemon(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """A daemon that runs."""
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tidepool.cli", "--stack", "bench", "scale"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        try:
            yield process
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_LIMIT_S)

    def health(self, page: str) -> str:
        """A page of the leader's; empty as long as there is none."""
        try:
            file = self._folder / "data" / "bench" / "scaler" / "listen.json"
            at = json.loads(file.read_text())
            with urllib.request.urlopen(f"http://{at['host']}:{at['port']}{page}", timeout=10) as answer:
                return str(answer.read().decode())
        except (OSError, ValueError):
            return ""

    def decisions(self) -> float:
        """How many it made."""
        name = "tidepool_decision_duration_seconds_count"
        lines = self.health("/metrics").splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0)


def measure(folder: Path, images: Path, nodes: int, seconds: float) -> tuple[Figures, Figures]:
    """A leader's figures, and those of one that stands by."""
    stack = Resting(folder, images, "embedded", max(nodes, 1))
    try:
        # A thousand at once are more than two cores bear.
        for some in [*range(_AT_ONCE, nodes, _AT_ONCE), nodes]:
            stack.write(some)
            stack.run("up", "--yes", "--no-refresh")
        with stack.daemon("leader") as leader:
            _until(lambda: '"role": "leads"' in stack.health("/healthz"), "it leads")
            with stack.daemon("stands-by") as other:
                time.sleep(_SETTLED_S)
                before = [_cpu_s(each.pid) for each in (leader, other)]
                decided, began = stack.decisions(), time.monotonic()
                time.sleep(seconds)
                took_s = time.monotonic() - began
                decided = (stack.decisions() - decided) / took_s
                spent = [_cpu_s(each.pid) for each in (leader, other)]
                found = [
                    Figures(nodes, (after - then) / took_s, _memory_mib(each.pid), rate)
                    for each, then, after, rate in zip(
                        (leader, other), before, spent, (decided, 0), strict=True
                    )
                ]
                assert '"role": "leads"' in stack.health("/healthz"), "it did not rest"
        return found[0], found[1]
    finally:
        stack.run("down", "--yes", "--purge")


def _until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {_LIMIT_S:g} s: {what}")
        time.sleep(0.1)


def _tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        children = task / "children"
        found += [each for child in children.read_text().split() for each in _tree(int(child))]
    return found


def _cpu_s(pid: int) -> float:
    """Of all in its tree, those that have ended and were waited for too."""
    ticks = 0
    for each in _tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def _memory_mib(pid: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in _tree(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            command = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # a look that has ended
        pss = next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
        words = [word.decode() for word in command]
        what = "engine" if "tidepool.engine.warm.forking" in words else "daemon"
        what = "provider" if any(word.endswith("/provider") for word in words) else what
        found[what] = found.get(what, 0) + pss / 1024
    return found


def table(found: Sequence[tuple[Figures, Figures]]) -> str:
    """Markdown: rows of figures, columns of sizes."""
    kinds = sorted({kind for leader, _ in found for kind in leader.memory_mib})

    def row(what: str, cells: Sequence[str]) -> str:
        return f"| {what} | " + " | ".join(cells) + " |"

    leaders, others = [each for each, _ in found], [each for _, each in found]
    lines = [
        row("", [f"{each.nodes} nodes" for each in leaders]),
        "|---|" + "---:|" * len(found),
        row("of one core", [f"{each.share:.1%}" for each in leaders]),
        *(
            row(f"memory, {kind}", [f"{each.memory_mib.get(kind, 0):.0f} MiB" for each in leaders])
            for kind in kinds
        ),
        row("memory, all", [f"{each.all_mib:.0f} MiB" for each in leaders]),
        row("decisions a second", [f"{each.decisions:.1f}" for each in leaders]),
        row("one that stands by: of one core", [f"{each.share:.1%}" for each in others]),
        row("one that stands by: memory", [f"{each.all_mib:.0f} MiB" for each in others]),
        row(
            "*target with 1,000 nodes*",
            [f"{SHARE:.0%}, {MEMORY_MIB} MiB" if each.nodes == 1000 else "" for each in leaders],
        ),
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="0,256,1000")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--images", type=Path, help="a store with the golden image (default: the data folder's)"
    )
    add_page_option(parser)
    given = parser.parse_args()
    images = given.images or Path(os.environ.get("TIDEPOOL_DATA", "/var/lib/tidepool")) / "images"
    found = []
    for size in map(int, given.sizes.split(",")):
        with scratch() as folder:
            found.append(measure(folder / "project", images, size, given.seconds))
        sys.stderr.write(f"{found[-1]}\n")
    text = f"{time.strftime('%Y-%m-%d')}, {engine_bench.machine()}, over {given.seconds:g} s.\n\n{table(found)}\n"
    if given.write:
        given.write.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
