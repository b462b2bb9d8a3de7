"""How long the scaler's `up` takes: nodes added and removed, in clusters of two sizes, by each way to run it. Needs root.

    .venv/bin/python bench/scaling_up.py [--sizes 10,256] [--counts 1,16] [--rounds 5]

From the call until the nodes are idle in Slurm and the outcome is there. The golden image has to be built
(`tidepool up` does it; TIDEPOOL_IMAGES says where it is). Medians, in seconds.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pulumi import automation

import tidepool
from tests.whole.cluster import Cluster
from tidepool.cluster.desired_state import DesiredNodes
from tidepool.cluster.hostlist import HostSet
from tidepool.engine import choose_command
from tidepool.engine.choice import find_cli
from tidepool.engine.warm import warm_command

#: From a wish for nodes, and those of them that it is about.
Up = Callable[[HostSet, HostSet], None]

_KINDS = ("tidepool:local:Machine", "tidepool:slurm:Node")


def nodes(first: int, last: int) -> HostSet:
    """Those from the number ``first`` to ``last``."""
    return HostSet(f"cpu-[{first}-{last}]") if first <= last else HostSet()


class Way:
    """A way to run an `up` on the cluster. Where it ``registers_all``, the program walks nodes that are none of it, too."""

    def __init__(
        self,
        cluster: Cluster,
        command: automation.PulumiCommand,
        env: dict[str, str],
        registers_all: bool = False,
    ) -> None:
        self._cluster = cluster
        self._command = command
        self._env = env
        self._registers_all = registers_all

    def up(self, hosts: HostSet, about: HostSet) -> None:
        stack = self._cluster.stack
        desired = DesiredNodes({"cpu": hosts}, None if self._registers_all else about)
        fleet = f"urn:pulumi:{stack}::cluster::tidepool:components:ComputeFleet$"
        automation.select_stack(
            stack,
            work_dir=str(self._cluster.folder),
            opts=automation.LocalWorkspaceOptions(
                pulumi_command=self._command, env_vars={**self._env, **desired.environment}
            ),
        ).up(
            target=[f"{fleet}{kind}::{node}" for kind in _KINDS for node in about],
            continue_on_error=True,
            parallel=256,
            suppress_outputs=True,
        )


def medians(up: Up, size: int, count: int, rounds: int) -> tuple[float, float]:
    """Of adding and of removing ``count`` nodes, after one round that is not counted."""
    about = nodes(size + 1, size + count)
    added: list[float] = []
    removed: list[float] = []
    for _ in range(rounds + 1):
        for hosts, taken in ((nodes(1, size + count), added), (nodes(1, size), removed)):
            began = time.perf_counter()
            up(hosts, about)
            taken.append(time.perf_counter() - began)
    return statistics.median(added[1:]), statistics.median(removed[1:])


def ways(cluster: Cluster, keep: ExitStack) -> Iterator[tuple[str, Way]]:
    """Those that this machine has, by name; what is kept warm is until the end of ``keep``."""
    env = {
        **cluster.environment,
        "PULUMI_BACKEND_URL": f"file://{cluster.data}/state",
        "PULUMI_CONFIG_PASSPHRASE_FILE": f"{cluster.data}/passphrase",
        "PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    folder = cluster.folder
    watched = [Path(tidepool.__file__).parent, folder / "__main__.py"]
    for engine in ("embedded", "pulumi"):
        if engine == "pulumi" and find_cli(os.environ) is None:
            continue
        desired = {**env, "TIDEPOOL_ENGINE": engine}
        cold = choose_command(desired)
        warm = keep.enter_context(
            warm_command(
                desired, folder=folder, modules=["tidepool.components"], plugins=["tidepool"], watched=watched
            )
        )
        yield f"{engine}, all registered", Way(cluster, cold, desired, registers_all=True)
        yield engine, Way(cluster, cold, desired)
        yield f"{engine}, warm", Way(cluster, warm, desired)


@contextmanager
def a_cluster() -> Iterator[Cluster]:
    """One without nodes, of which nothing is left."""
    images = Path(os.environ.get("TIDEPOOL_IMAGES") or "/var/lib/tidepool/images")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        fleet = {
            "name": "cpu",
            "subnet": "10.78.4.0/22",
            "max_nodes": 600,
            "shape": {"cpus": 1, "memory": "128MiB"},
        }
        cluster = Cluster.make(Path(folder), images, f"b{os.getpid()}", fleets=[fleet])
        try:
            cluster.up()
            yield cluster
        finally:
            cluster.down()


def main() -> None:
    """Print the table."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # machines are not left behind
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", default="10,256", help="nodes that are there already")
    parser.add_argument("--counts", default="1,16", help="nodes added and removed at once")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print("| nodes there | way | added/removed | add | remove |\n|---:|---|---:|---:|---:|")
    with a_cluster() as cluster, ExitStack() as keep:
        known = dict(ways(cluster, keep))
        there = 0
        for size in map(int, asked.sizes.split(",")):
            known["embedded, warm"].up(nodes(1, size), nodes(there + 1, size))
            there = size
            for name, way in known.items():
                for count in map(int, asked.counts.split(",")):
                    add, remove = medians(way.up, size, count, asked.rounds)
                    print(f"| {size} | {name} | {count} | {add:.2f} | {remove:.2f} |", flush=True)
        load = os.getloadavg()
        print(f"\nLoad at the end: {load[0]:.1f}, of {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
