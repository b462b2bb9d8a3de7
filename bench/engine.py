"""The embedded engine beside the Pulumi CLI: time and peak memory of the same operations.

Both run the same program with the same provider, on a stack of their own in the same kind of state
folder, turn about, each round from nothing: create N resources, an ``up`` and a preview that change nothing, destroy.
The figures are medians of the rounds. Memory is the peak of all processes of the operation together
(PSS: shared pages are counted once).

    python bench/engine.py [--sizes 10,100,1000,10000] [--rounds 3] [--write docs/benchmarks/engine.md]
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench.page import add_page_option  # noqa: E402
from tidepool.engine.choice import find_cli  # noqa: E402

PROGRAM: Final = ROOT / "bench" / "programs" / "items"
PLUGINS: Final = ROOT / "tests" / "engine" / "plugins"
OPERATIONS: Final = {
    "create": ("up", "--yes", "--skip-preview"),
    "idle": ("up", "--yes", "--skip-preview", "--expect-no-changes"),
    "preview": ("preview", "--expect-no-changes"),
    "destroy": ("destroy", "--yes", "--skip-preview"),
}
#: The targets of the design: (operation, resources) -> seconds, MiB.
TARGETS: Final = {
    ("idle", 12): (0.45, None),
    ("idle", 1000): (1.8, None),
    ("create", 1000): (4.0, None),
    ("create", 10_000): (45.0, 600.0),
}


@dataclass(frozen=True, slots=True)
class Actor:
    """One of the two that are compared."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """One run: seconds, MiB of peak memory."""

    seconds: float
    peak_mib: float


def actors() -> list[Actor]:
    """The engine, and the CLI where it is there: as it is, and with crash safety given up for speed."""
    found = [Actor("engine", (sys.executable, "-m", "tidepool.engine"))]
    pulumi = find_cli(os.environ)
    if pulumi:
        found.append(Actor("pulumi", (str(pulumi),)))
        found.append(Actor("pulumi, no checkpoints", (str(pulumi),), {"PULUMI_SKIP_CHECKPOINTS": "true"}))
    return found


class Stack:
    """A stack of one actor in folders of its own."""

    def __init__(self, actor: Actor, folder: Path, count: int) -> None:
        self._actor = actor
        for name in ("state", "home"):
            (folder / name).mkdir(parents=True)
        self._project = folder / "program"
        shutil.copytree(PROGRAM, self._project)
        text = (self._project / "Pulumi.yaml").read_text()
        plugin = "../../../tests/engine/plugins/fake"
        (self._project / "Pulumi.yaml").write_text(text.replace(plugin, str(PLUGINS / "fake")))
        # As on a person's machine, Python keeps what it compiles.
        others = ("PULUMI_", "PYTHONDONTWRITEBYTECODE")
        self._env = {k: v for k, v in os.environ.items() if not k.startswith(others)} | {
            "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "bench",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PYTHONPATH": os.pathsep.join((str(PLUGINS), str(ROOT))),
            "FAKE_WORLD": str(folder / "world"),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "ITEMS": str(count),
            **actor.env,
        }
        self._run("stack", "init", "bench")

    def measure(self, operation: str) -> Figure:
        """Do an operation, and say what it took."""
        began = time.perf_counter()
        with _started(self._command(*OPERATIONS[operation]), self._project, self._env) as process:
            watch = _Memory(process.pid)
            code = process.wait()
            seconds = time.perf_counter() - began
            peak = watch.end()
        if code:
            raise SystemExit(f"{self._actor.name}: {operation} ended with exit code {code}")
        return Figure(seconds, peak)

    def _run(self, *args: str) -> None:
        subprocess.run(
            self._command(*args), cwd=self._project, env=self._env, check=True, stdout=subprocess.DEVNULL
        )

    def _command(self, *args: str) -> list[str]:
        return [*self._actor.argv, "--non-interactive", *args]


@contextmanager
def _started(command: Sequence[str], cwd: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=output, stderr=output)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.returncode:
                output.seek(0)
                sys.stderr.write(output.read().decode(errors="replace")[-4000:])


class _Memory:
    """Samples the memory of a process and all below it, five times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak_kib = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self) -> float:
        """Stop, and give the peak in MiB."""
        self._ended.set()
        self._thread.join()
        return self._peak_kib / 1024

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self._peak_kib = max(self._peak_kib, sum(_pss_kib(pid) for pid in _family(self._pid)))


def _family(pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it ended while we looked
            children.setdefault(parent, []).append(int(entry.name))
    frontier = [pid]
    while frontier:
        one = frontier.pop()
        yield one
        frontier += children.get(one, ())


def _pss_kib(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it ended while we looked
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def rounds(sizes: Sequence[int], count: int, limit_s: float) -> dict[tuple[str, str, int], list[Figure]]:
    """All figures by actor, operation and size. An actor that took longer than ``limit_s`` sits out the rest."""
    figures: dict[tuple[str, str, int], list[Figure]] = {}
    slow: set[str] = set()
    for size in sizes:
        for number in range(count):
            for actor in actors():
                if actor.name in slow:
                    continue
                folder = Path(tempfile.mkdtemp(prefix="bench-engine-"))
                try:
                    stack = Stack(actor, folder, size)
                    for operation in OPERATIONS:
                        figure = stack.measure(operation)
                        figures.setdefault((actor.name, operation, size), []).append(figure)
                        print(
                            f"{actor.name:24} {operation:8} {size:6} round {number + 1}: "
                            f"{figure.seconds:7.2f} s {figure.peak_mib:6.0f} MiB",
                            file=sys.stderr,
                            flush=True,
                        )
                        if figure.seconds > limit_s:
                            slow.add(actor.name)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
    return figures


def table(figures: dict[tuple[str, str, int], list[Figure]]) -> str:
    """The medians as a Markdown table, one row an operation and size."""
    names = list(dict.fromkeys(name for name, _, _ in figures))
    most = max(len(runs) for runs in figures.values())
    lines = [
        "| operation | resources | " + " | ".join(f"{n}, s | MiB" for n in names) + " | target |",
        "|---|---:|" + "---:|---:|" * len(names) + "---|",
    ]
    for operation, size in sorted(
        {(o, s) for _, o, s in figures}, key=lambda k: (list(OPERATIONS).index(k[0]), k[1])
    ):
        cells: list[str] = []
        for name in names:
            runs = figures.get((name, operation, size))
            if runs is None:
                cells += ["-", "-"]
                continue
            # Who was too slow took part in fewer rounds.
            rounds_note = f" (of {len(runs)})" if len(runs) < most else ""
            cells.append(f"{statistics.median(r.seconds for r in runs):.2f}{rounds_note}")
            cells.append(f"{statistics.median(r.peak_mib for r in runs):.0f}")
        seconds, mib = TARGETS.get((operation, size), (None, None))
        target = f"<= {seconds:g} s" if seconds else ""
        target += f", <= {mib:g} MiB" if mib else ""
        lines.append(f"| {operation} | {size} | " + " | ".join(cells) + f" | {target} |")
    return "\n".join(lines)


def machine() -> str:
    """What the figures were taken on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    pulumi = find_cli(os.environ)
    version = (
        subprocess.run([pulumi, "version"], capture_output=True, text=True, check=True).stdout.strip()
        if pulumi
        else "not there"
    )
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, pulumi {version}"
    )


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="10,12,100,1000,10000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=120.0, help="an actor that takes longer sits out the rest"
    )
    add_page_option(parser)
    options = parser.parse_args()
    figures = rounds([int(s) for s in options.sizes.split(",")], options.rounds, options.limit)
    report = (
        f"{time.strftime('%Y-%m-%d')}, {machine()}, medians of {options.rounds} rounds.\n\n{table(figures)}\n"
    )
    print(report)
    if options.write:
        options.write.write(report)


if __name__ == "__main__":
    main()
