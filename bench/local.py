"""From `up` to a cluster of this machine whose nodes are all idle: time, for several sizes. Needs root.

Each round is from nothing: a stack of its own, `tidepool up` (network, controller, login machine, fleet), an `up`
that changes nothing, another node, `tidepool down`. Side by side, turn about: the embedded engine; the Pulumi CLI
where it is on PATH; and *bare*, the same machines by the same functions without any engine, provider or program:
what is above it is what the graph costs. The figures are medians.

    python bench/local.py [--sizes 1,64,256] [--rounds 3] [--cli-up-to 64] [--write docs/benchmarks/local.md]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import engine as engine_bench  # noqa: E402
from bench import machines as bare  # noqa: E402
from bench.page import add_page_option  # noqa: E402
from tidepool.engine.choice import find_cli  # noqa: E402
from tidepool.infrastructures.local import kernel  # noqa: E402

TIDEPOOL: Final = Path(sys.executable).with_name("tidepool")
#: Of the issue: nodes -> seconds from `up` to all idle.
TARGETS_S: Final = {1: 1.5, 64: 6.0, 256: 20.0}
_LIMIT_S: Final = 300.0

Figures = dict[tuple[str, str, int], list[float]]
"""(who, what, nodes) -> seconds, one for each round."""


class Stack:
    """A stack of one fleet in folders of its own."""

    def __init__(self, folder: Path, images: Path, engine: str, nodes: int) -> None:
        self._folder, self._nodes = folder, nodes
        folder.mkdir()
        for name in (".venv", "__main__.py", "Pulumi.yaml", "images", "playbooks", "provider"):
            (folder / name).symlink_to(ROOT / name)
        self._environment = {
            **os.environ,
            "TIDEPOOL_DATA": str(folder / "data"),
            "TIDEPOOL_IMAGES": str(images),
            "TIDEPOOL_ENGINE": engine,
        }

    def write(self, nodes: int, **more: Any) -> None:
        """The spec, with so many nodes, and ``more`` of it."""
        fleet = {
            "name": "cpu",
            "subnet": "10.77.8.0/21",
            "min_nodes": nodes,
            "max_nodes": self._nodes + 1,
            "shape": {"cpus": 1, "memory_mib": 64},
        }
        controller = {"shape": {"cpus": 2, "memory_mib": 2048}}
        spec = {
            "name": "bench",
            "network": "10.77.0.0/16",
            "controller": controller,
            "fleets": [fleet],
            "partitions": [{"name": "main"}],
            **more,
        }
        file = self._folder / "Pulumi.bench.yaml"
        salt = [line for line in _lines(file) if line.startswith("encryptionsalt:")]
        file.write_text("\n".join([*salt, json.dumps({"config": {"cluster:spec": spec}})[1:-1], ""]))

    def run(self, *arguments: str) -> float:
        """The command, which must succeed; gives its seconds."""
        begun = time.perf_counter()
        done = subprocess.run(
            [str(TIDEPOOL), "--stack", "bench", *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        took = time.perf_counter() - begun
        if done.returncode:
            raise SystemExit(
                f"tidepool {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return took


def _lines(file: Path) -> Sequence[str]:
    return file.read_text().splitlines() if file.exists() else ()


def measure(folder: Path, images: Path, engine: str, nodes: int, tell: Callable[[str, float], None]) -> None:
    """One round of an engine."""
    stack = Stack(folder, images, engine, nodes)
    try:
        stack.write(0)
        tell("the cluster without nodes", stack.run("up", "--yes"))
        stack.write(nodes)
        tell("nodes added", stack.run("up", "--yes"))
        tell("no change", stack.run("up", "--yes"))
        stack.write(nodes + 1)
        tell("one more node", stack.run("up", "--yes"))
        tell("down", stack.run("down", "--yes", "--purge"))
        stack.write(nodes)
        tell("all from nothing", stack.run("up", "--yes"))
    finally:
        stack.run("down", "--yes", "--purge")


def measure_bare(folder: Path, images: Path, nodes: int, tell: Callable[[str, float], None]) -> None:
    """The same machines with the same daemons over the same image, made by 16 threads of one process."""
    (root,) = (path / "root" for path in images.iterdir() if (path / "manifest.json").exists())
    data = folder / "data"
    try:
        figures = bare.measure(data, root, nodes, with_slurm=True)
        tell("nodes added", figures["idle"])
    finally:
        for machine in kernel.list_machines(data, "bench"):
            kernel.delete_machine(data, "bench", machine.name)
        for network in kernel.list_networks(data, "bench"):
            kernel.delete_network(data, "bench", network.name)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one round, removed with all that is in it."""
    folder = Path(tempfile.mkdtemp(prefix="bench-local-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def table(figures: Figures, sizes: Sequence[int]) -> str:
    """Markdown: rows of what was done, columns of sizes, each engine beside the other."""
    lines = [
        "| | | " + " | ".join(f"{size} nodes" for size in sizes) + " |",
        "|---|---|" + "---:|" * len(sizes),
    ]
    for what in dict.fromkeys(what for _, what, _ in figures):
        for who in dict.fromkeys(who for who, w, _ in figures if w == what):
            cells = []
            for size in sizes:
                seen = figures.get((who, what, size))
                cells.append(f"{statistics.median(seen):.2f} s" if seen else "")
            lines.append(f"| {what} | {who} | " + " | ".join(cells) + " |")
    targets = [f"{TARGETS_S[size]:g} s" if size in TARGETS_S else "" for size in sizes]
    lines.append("| *target, up to all idle* | | " + " | ".join(targets) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="1,64,256")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cli-up-to", type=int, default=64, help="the CLI sits out larger sizes")
    parser.add_argument(
        "--images", type=Path, help="a store with the golden image (default: the data folder's)"
    )
    add_page_option(parser)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    images = given.images or Path(os.environ.get("TIDEPOOL_DATA", "/var/lib/tidepool")) / "images"
    engines = ["embedded", *(["pulumi"] if find_cli(os.environ) else [])]
    figures: Figures = {}
    for size in sizes:
        for turn in range(given.rounds):
            for who in [*engines, "bare"]:
                if who == "pulumi" and size > given.cli_up_to:
                    continue

                def tell(
                    what: str, seconds: float, who: str = who, size: int = size, turn: int = turn
                ) -> None:
                    figures.setdefault((who, what, size), []).append(seconds)
                    sys.stderr.write(f"{size} nodes, round {turn + 1}, {who}: {what} {seconds:.2f} s\n")

                with scratch() as folder:
                    if who == "bare":
                        measure_bare(folder, images, size, tell)
                    else:
                        measure(folder / "project", images, who, size, tell)
    text = f"{time.strftime('%Y-%m-%d')}, {engine_bench.machine()}, medians of {given.rounds} rounds.\n\n{table(figures, sizes)}\n"
    if given.write:
        given.write.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
