"""How long a machine takes between Slurm and Kubernetes: real slurmd, real kubelet, real pods and jobs. Needs root.

An idle machine is converted there and back, again and again, by `tidepool convert`: through the graph. After each, what
the command says is held against the world: a pod is scheduled and runs there, or a job does. Then all machines at once.

    python bench/convert.py [--rounds 30] [--machines 8] [--write docs/benchmarks/convert.md] [--chart convert.svg]
    python bench/convert.py --vms --rounds 5 --machines 2 [--write docs/benchmarks/convert_vms.md]
    python bench/convert.py --by-image --rounds 3 --machines 1 [--write docs/benchmarks/convert_by_image.md]

With ``--vms`` the machines are of libvirt, emulated, with a kernel and a systemd of their own; the control planes are of this
machine. With ``--by-image`` they are such VMs whose roles have an image each: Debian 12 for Slurm, Debian 13 for Kubernetes.

*machine* is from when somebody begins to carry the order out until the new side gives the machine work, by the journal;
*command* is the whole of `tidepool convert`, from its start to its exit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import engine as engine_bench  # noqa: E402
from bench.local import scratch  # noqa: E402
from bench.page import add_page_option  # noqa: E402
from tests.golden import CONVERGED, golden_store  # noqa: E402
from tests.whole.pools import PoolCluster, a_pool_cluster  # noqa: E402
from tests.whole.vms import a_pool_of_vms  # noqa: E402
from tidepool.charts.box_plot import write_box_plots  # noqa: E402
from tidepool.clients.slurm import JobState  # noqa: E402
from tidepool.cluster.roles import Role  # noqa: E402
from tidepool.conversion.record import Phase  # noqa: E402
from tidepool.conversion.report import PHASES, Row, quantile, rows  # noqa: E402


@dataclass(frozen=True, slots=True)
class Targets:
    """Of the issues, in seconds: an idle machine to each role, and the command where there is one for it."""

    machine_s: Mapping[Role, float]
    command_s: float = float("inf")


HERE: Final = Targets({"kubernetes": 3.0, "slurm": 2.0}, 5.0)
VMS: Final = Targets({"kubernetes": 20.0, "slurm": 10.0})
BY_IMAGE: Final = Targets({"kubernetes": 120.0, "slurm": 120.0})
#: How many times as long as one all may take.
AT_ONCE: Final = 3.0
#: For a pod, or a job, to run on a machine that has been converted.
WORK_S: Final = 300.0
#: Of the thesis, in seconds: what comes closest to each.
THESIS: Final = {"slurm": 183.91, "kubernetes": 145.17}
_WAYS: Final[tuple[Role, ...]] = ("kubernetes", "slurm")
_SAID_OF_STEPS: Final = {"image": "a new disk of the other image, and started", "boot": "until it answers"}


@dataclass
class Measured:
    """Seconds of one direction, a figure for each round; ``work_s`` until a pod ran there, or a job had."""

    command_s: list[float] = field(default_factory=list)
    work_s: list[float] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def machine_s(self) -> list[float]:
        """Without the command around it."""
        return [row.driven_s for row in self.rows]


def one(
    pool: PoolCluster, rounds: int, tell: Callable[[str], None], *, warms_up: bool = True
) -> dict[Role, Measured]:
    """One machine, there and back, so many times; where it ``warms_up``, once more at first, which is not counted."""
    found: dict[Role, Measured] = {way: Measured() for way in _WAYS}
    node = pool.names[0]
    for number in range(0 if warms_up else 1, rounds + 1):
        for way in _WAYS:
            command_s = _converted(pool, way, node)
            began = time.perf_counter()
            _works(pool, way, node, number)
            work_s = time.perf_counter() - began
            last = rows([pool.last(node)])[0]
            tell(
                f"{number}/{rounds} to {way}: command {command_s:.2f} s, machine {last.driven_s:.2f} s, work {work_s:.2f} s"
            )
            if number:
                found[way].command_s.append(command_s)
                found[way].work_s.append(work_s)
                found[way].rows.append(last)
    return found


def together(pool: PoolCluster, rounds: int, tell: Callable[[str], None]) -> dict[Role, list[float]]:
    """All machines at once, there and back: the seconds of the command."""
    found: dict[Role, list[float]] = {way: [] for way in _WAYS}
    for number in range(rounds):
        for way in _WAYS:
            found[way].append(_converted(pool, way, *pool.names))
            tell(f"all {len(pool.names)}, {number + 1}/{rounds} to {way}: {found[way][-1]:.2f} s")
    return found


def report(
    one_s: dict[Role, Measured], all_s: dict[Role, list[float]], machines: int, targets: Targets
) -> str:
    """Markdown."""
    lines = [
        "| | to Kubernetes, p50 | p95 | to Slurm, p50 | p95 | target, p50 |",
        "|---|---:|---:|---:|---:|---|",
    ]

    def row(name: str, figures: Callable[[Measured], Sequence[float]], target: str = "") -> None:
        cells = [f"{_part(figures(one_s[way]), part):.2f} s" for way in _WAYS for part in (0.5, 0.95)]
        lines.append(f"| {name} | {' | '.join(cells)} | {target} |")

    target = ", ".join(f"{targets.machine_s[way]:g} s" for way in _WAYS)
    row("machine: idle, until the new side gives it work", lambda it: it.machine_s, target)
    for phase in PHASES:
        if any(phase in each.phases for way in _WAYS for each in one_s[way].rows):
            row(f"phase `{phase}`", partial(_of_phase, phase))
    for step, said in _SAID_OF_STEPS.items():
        if any(step in each.steps for way in _WAYS for each in one_s[way].rows):
            row(f"of `imaging`: {said}", partial(_of_step, step))
    command = f"{targets.command_s:g} s" if targets.command_s < float("inf") else ""
    row("command: `tidepool convert`, through the graph", lambda it: it.command_s, command)
    row("then: a pod runs there, a job has run", lambda it: it.work_s)
    if all(all_s.values()):
        cells = [f"{_part(all_s[way], part):.2f} s" for way in _WAYS for part in (0.5, 0.95)]
        times = [_part(all_s[way], 0.5) / _part(one_s[way].command_s, 0.5) for way in _WAYS]
        lines.append(f"| {machines} machines by one command | {' | '.join(cells)} | {AT_ONCE:g} x one |")
        lines.append(
            f"| as many times as long as one | {times[0]:.2f} x | | {times[1]:.2f} x | | {AT_ONCE:g} x |"
        )
    lines.append(f"| the thesis | {THESIS['kubernetes']:g} s (deprovision) | | {THESIS['slurm']:g} s | | |")
    return "\n".join(lines)


def missed(one_s: dict[Role, Measured], all_s: dict[Role, list[float]], targets: Targets) -> list[str]:
    """Which targets are not met."""
    found = []
    for way in _WAYS:
        machine_s, command_s = _part(one_s[way].machine_s, 0.5), _part(one_s[way].command_s, 0.5)
        if machine_s > targets.machine_s[way]:
            found.append(f"machine to {way}: {machine_s:.2f} s, target {targets.machine_s[way]:g} s")
        if command_s > targets.command_s:
            found.append(f"command to {way}: {command_s:.2f} s, target {targets.command_s:g} s")
        if all_s[way] and _part(all_s[way], 0.5) > AT_ONCE * command_s:
            found.append(
                f"all at once to {way}: {_part(all_s[way], 0.5):.2f} s, target {AT_ONCE * command_s:.2f} s"
            )
    return found


def main() -> int:
    """Measure, and print or write the table. Exit code 1 where a target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--machines", type=int, default=8)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--vms", action="store_true", help="machines of libvirt, emulated")
    kind.add_argument("--by-image", action="store_true", help="the same, with an image for each role")
    add_page_option(parser)
    parser.add_argument("--chart", type=Path, help="box plots by phase, SVG or PNG")
    given = parser.parse_args()

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    targets = BY_IMAGE if given.by_image else VMS if given.vms else HERE
    with scratch() as folder, a_pool(folder, given.machines, vms=given.vms, by_image=given.by_image) as pool:
        # A machine that is made anew is as new each time.
        one_s = one(pool, given.rounds, tell, warms_up=not given.by_image)
        all_s = together(pool, max(3, given.rounds // 6) if given.machines > 1 else 0, tell)
    text = (
        f"{time.strftime('%Y-%m-%d')}, {engine_bench.machine()}; {given.rounds} rounds of one machine, of a pool of "
        f"{given.machines}.\n\n{report(one_s, all_s, given.machines, targets)}\n"
    )
    if given.chart:
        write_box_plots(
            [row for way in _WAYS for row in one_s[way].rows],
            given.chart,
            title="Conversions of an idle machine",
        )
    if given.write:
        given.write.write(text)
    sys.stdout.write(text)
    wrong = missed(one_s, all_s, targets)
    sys.stdout.write("".join(f"MISSED: {each}\n" for each in wrong))
    return 1 if wrong else 0


def a_pool(folder: Path, machines: int, *, vms: bool, by_image: bool) -> AbstractContextManager[PoolCluster]:
    """Return a pool that is up within, and of which nothing is left."""
    if by_image:
        return a_pool_of_vms(folder, 0, by_image=machines)
    if vms:
        return a_pool_of_vms(folder, machines)
    return a_pool_cluster(folder, golden_store("debian-12", CONVERGED), machines)


def _converted(pool: PoolCluster, way: Role, *nodes: str) -> float:
    # With its start, which tests spare themselves.
    began = time.perf_counter()
    with pool.converting(*nodes, "--to", way, timeout_s=WORK_S) as command:
        command.wait()
    took_s = time.perf_counter() - began
    if command.returncode:
        raise SystemExit(f"{nodes} to {way}: {command.returncode}\n{pool.converting_said()}")
    return took_s


def _works(pool: PoolCluster, way: Role, node: str, number: int) -> None:
    """A pod, or a job, runs on the machine."""
    if way == "kubernetes":
        pool.pod(f"works-{number}", "true", node=node, pool=node.rpartition("-")[0])
        assert pool.until_pod(f"works-{number}", "Running", "Succeeded", timeout_s=WORK_S).node == node
        pool.until_pod(f"works-{number}", "Succeeded", timeout_s=WORK_S)
    else:
        job = pool.submit("true", work_dir="/tmp", more=(f"--nodelist={node}",))
        pool.until_job(job, JobState.COMPLETED, timeout_s=WORK_S)


def _of_phase(phase: Phase, measured: Measured) -> list[float]:
    return [row.phases.get(phase, 0.0) for row in measured.rows]


def _of_step(step: str, measured: Measured) -> list[float]:
    return [row.steps.get(step, 0.0) for row in measured.rows]


def _part(seconds: Sequence[float], part: float) -> float:
    return quantile(sorted(seconds), part)


if __name__ == "__main__":
    if os.geteuid() != 0:
        raise SystemExit("machines are root's: run it with sudo")
    sys.exit(main())
