"""A cluster whose machines have Flux, as a laboratory's testbed: two nodes of two processors, and nothing of Kubernetes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.golden import golden_image
from tests.toolchain import kubernetes_tools
from tests.whole.conftest import a_cluster
from tidepool.infrastructures.connection import transport
from tidepool.lab.hosting.local import LocalHosting
from tidepool.lab.programs.build import MPI_IMAGE, build
from tidepool.lab.testbed import PROGRAMS, RECORDS, Testbed, processes

IMAGE: Final = "debian-12-flux"
#: Names the folder of a flux-core that was built for /opt/flux; no registry has one, so that CI has none.
FOLDER: Final = "TIDEPOOL_TEST_FLUX"
_FLEET: Final = {
    "name": "cpu",
    "subnet": "10.78.1.0/24",
    "min_nodes": 2,
    "max_nodes": 2,
    "shape": {"cpus": 2, "memory": "512MiB"},
}


@contextmanager
def flux_testbed(folder: Path, images: Path, image: str = IMAGE) -> Iterator[Testbed]:
    """Yield a testbed; the cluster is gone afterwards. Skips where no Flux is named."""
    if FOLDER not in os.environ:
        pytest.skip(f"no registry has Flux; {FOLDER} names none")
    # Its image is one of converged pools.
    kubernetes_tools()
    mpi_root = golden_image(MPI_IMAGE).root
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEPOOL_FOLDER_FLUX", os.environ[FOLDER])
        golden_image(image)
        with a_cluster(folder, images, image=image, fleets=[_FLEET]) as cluster:
            testbed = Testbed(
                stack=cluster.stack,
                machines=("cpu-1", "cpu-2"),
                cpus_per_machine=2,
                memory_mib=512,
                home=cluster.data / cluster.stack / "volumes" / "home",
                programs=PROGRAMS,
                records=RECORDS,
                controller=transport(
                    {"kind": "local", "stack": cluster.stack, "machine": "ctl"}, cluster.data
                ),
                kubeconfig=None,
                pids=lambda machine: processes(cluster.data, cluster.stack, machine),
                data=cluster.data,
                hosting=LocalHosting(cluster.data, cluster.stack),
            )
            build(testbed.here(PROGRAMS), mpi_root=mpi_root)
            testbed.here(RECORDS).mkdir(parents=True)
            yield testbed
