"""A pool whose machines serve Kubernetes, as a laboratory's testbed: two machines of two processors, with the programs built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.golden import CONVERGED, golden_image, golden_store
from tests.whole.pools import POOL, PoolCluster, a_pool_cluster
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.kubernetes_access import access_path
from tidepool.lab.hosting.local import LocalHosting
from tidepool.lab.programs.build import MPI_IMAGE, build
from tidepool.lab.testbed import PROGRAMS, RECORDS, Testbed, processes

MACHINES: Final = 2
CPUS: Final = 2
_MEMORY_MIB: Final = 1024


@contextmanager
def kubernetes_testbed(folder: Path) -> Iterator[Testbed]:
    """Yield one that is up; nothing of it is left afterwards."""
    mpi_root = golden_image(MPI_IMAGE).root
    store = golden_store("debian-12", CONVERGED)
    shape = {"cpus": CPUS, "memory": f"{_MEMORY_MIB}MiB"}
    with a_pool_cluster(folder, store, MACHINES, kubernetes_min=MACHINES, shape=shape) as pool:
        testbed = testbed_of(pool)
        build(testbed.here(PROGRAMS), mpi_root=mpi_root)
        testbed.here(RECORDS).mkdir(parents=True)
        yield testbed


def testbed_of(pool: PoolCluster) -> Testbed:
    """The machines of a pool that is up."""
    return Testbed(
        stack=pool.stack,
        machines=tuple(f"{POOL}-{number}" for number in range(1, MACHINES + 1)),
        cpus_per_machine=CPUS,
        memory_mib=_MEMORY_MIB,
        home=pool.data / pool.stack / "volumes" / "home",
        programs=PROGRAMS,
        records=RECORDS,
        controller=transport({"kind": "local", "stack": pool.stack, "machine": "ctl"}, pool.data),
        kubeconfig=access_path(pool.data, pool.stack, "kubernetes-admin"),
        pids=lambda machine: processes(pool.data, pool.stack, machine),
        data=pool.data,
        hosting=LocalHosting(pool.data, pool.stack),
    )
