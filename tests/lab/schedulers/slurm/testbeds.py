"""A cluster of Slurm's as a laboratory's testbed: two nodes of two processors, programs built, and nothing of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tests.golden import golden_image, golden_store
from tests.whole.conftest import a_cluster
from tidepool.infrastructures.connection import transport
from tidepool.lab.hosting.local import LocalHosting
from tidepool.lab.programs.build import MPI_IMAGE, build
from tidepool.lab.testbed import PROGRAMS, RECORDS, Testbed, processes

MACHINES: Final = 2
CPUS: Final = 2
_MEMORY_MIB: Final = 512

#: Partitions and settings of a laboratory whose Slurm preempts, as in Pulumi.lab.yaml.
_LABORATORY: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "partitions": [
            {"name": "main", "default": True},
            {"name": "preempting", "options": {"PriorityTier": 2}},
        ],
        "slurm_conf": {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"},
    }
)


@contextmanager
def slurm_testbed(folder: Path, image: str, **spec: Any) -> Iterator[Testbed]:
    """Yield a testbed whose machines are of ``image``; ``spec`` says more. The cluster is gone afterwards."""
    mpi_root = golden_image(MPI_IMAGE).root
    fleet = {
        "name": "cpu",
        "subnet": "10.78.1.0/24",
        "min_nodes": MACHINES,
        "max_nodes": MACHINES,
        "shape": {"cpus": CPUS, "memory": f"{_MEMORY_MIB}MiB"},
    }
    with a_cluster(
        folder, golden_store(image), image=image, fleets=[fleet], **_LABORATORY, **spec
    ) as cluster:
        testbed = Testbed(
            stack=cluster.stack,
            machines=tuple(f"cpu-{number}" for number in range(1, MACHINES + 1)),
            cpus_per_machine=CPUS,
            memory_mib=_MEMORY_MIB,
            home=cluster.data / cluster.stack / "volumes" / "home",
            programs=PROGRAMS,
            records=RECORDS,
            controller=transport({"kind": "local", "stack": cluster.stack, "machine": "ctl"}, cluster.data),
            kubeconfig=None,
            pids=lambda machine: processes(cluster.data, cluster.stack, machine),
            data=cluster.data,
            hosting=LocalHosting(cluster.data, cluster.stack),
        )
        build(testbed.here(PROGRAMS), mpi_root=mpi_root)
        testbed.here(RECORDS).mkdir(parents=True)
        yield testbed
