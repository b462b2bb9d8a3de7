"""MPI between four nodes, while the scaler takes the others away: Open MPI and MPICH, compiled in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import versions
from tests.golden import golden_store
from tests.whole.breathing import FLEETS, breathing, machines, until_empty
from tests.whole.cluster import Cluster, until
from tests.whole.conftest import a_cluster
from tidepool.clients.slurm import JobState
from tidepool.cluster.hostlist import expand
from tidepool.scaling.decision import Drain, Remove
from tidepool.scaling.journal import open_journal

IMAGE = "debian-12-dev"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.runs(
        "local",
        versions.slurm(IMAGE),
        versions.debian("openmpi-bin", "Open MPI", IMAGE),
        versions.debian("mpich", "MPICH", IMAGE),
    ),
]


MATRIX = Path(__file__).parent / "jobs" / "matrix.c"
#: The MPIs, by what `srun --mpi=` starts each with.
STARTERS = {"openmpi": "pmix", "mpich": "pmi2"}
#: Of those that the matrix does not have.
OTHERS = 4
#: What goes before all else on a machine with that fabric. None has one here: each library has TCP instead, by its own
#: parameters, at the priority of its fabrics.
FABRICS = {
    "ucx": (
        "selected ucx best priority 51",
        "OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any",
    ),
    "ofi": ("selected cm best priority 25", "OMPI_MCA_opal_common_ofi_provider_include='tcp;ofi_rxm'"),
    "none": ("selected ob1 best priority 20", ""),
}


@pytest.fixture(scope="module")
def cluster(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Without nodes, room for eight; the matrix is compiled by both MPIs. The image is built where it is not there: a minute."""
    assert golden_store(IMAGE) == images
    fleet = {**FLEETS[0], "max_nodes": 4 + OTHERS, "shape": {"cpus": 1, "memory": "512MiB"}}
    with a_cluster(tmp_path_factory.mktemp("cluster"), images, image=IMAGE, fleets=[fleet]) as it:
        for mpi in STARTERS:
            compile_matrix = f"mpicc.{mpi} -O2 -Wall -Werror -x c -o matrix.{mpi} -"
            done = it.run("ssh", "login-1", "--", compile_matrix, stdin=MATRIX.read_text())
            assert done.returncode == 0, done
        yield it


@pytest.mark.parametrize("mpi", STARTERS)
def test_a_product_over_four_nodes_is_right_while_the_scaler_takes_the_others_away(
    cluster: Cluster, mpi: str
) -> None:
    with breathing(cluster):
        waiting = f"until test -e others-end.{mpi}; do sleep 0.2; done"
        cluster.submit(waiting, array=f"1-{OTHERS}", exclusive=True, output="/dev/null")
        run = f"srun --mpi={STARTERS[mpi]} ../matrix.{mpi}"
        product = cluster.submit(
            f"mkdir {mpi}; cd {mpi}; {run}",
            nodes="4",
            tasks=4,
            exclusive=True,
            output=f"{mpi}.out",
        )
        until(lambda: len(machines(cluster)) == 4 + OTHERS or None, "all eight nodes are there", 300)
        until(lambda: "begun" in said(cluster, mpi) or None, "the first product was right", 300)
        its = set(expand(cluster.until_job(product, JobState.RUNNING).nodelist))
        assert len(its) == 4

        begun = datetime.now(UTC)
        cluster.on("login-1", "touch", f"/home/researcher/others-end.{mpi}")
        until(lambda: set(machines(cluster)) == its or None, "the others are gone", 300)
        assert cluster.job(product).state is JobState.RUNNING
        # By the scaler's hand, and none of the four was as much as drained.
        assert taken_away(cluster, begun) == set(expand(f"cpu-[1-{4 + OTHERS}]")) - its

        cluster.on("login-1", "touch", f"/home/researcher/{mpi}/enough")
        assert cluster.until_job(product, JobState.COMPLETED, timeout_s=300).restarts == 0
        assert "is wrong" not in said(cluster, mpi)
        (last,) = [line for line in said(cluster, mpi).splitlines() if line.startswith("right: ")]
        assert set(last.split()[-4:]) == its
        assert {"openmpi": "Open MPI", "mpich": "MPICH"}[mpi] in last
        until_empty(cluster, 300)


def test_a_wrong_product_is_found_and_a_fabric_goes_before_tcp(cluster: Cluster) -> None:
    """A product that was found right would be worth nothing if a wrong one were as well."""
    run = "srun --mpi=pmix ./matrix.openmpi"
    # First: of a step that follows another at once srun says that it waits for the nodes.
    lines = ["touch enough", "echo == plain", f"{run} >plain 2>&1", "cat plain"]
    lines += ["echo == spoilt", f"{run} spoil 2>&1 | grep -E 'wrong|right'"]
    for name, (_, environment) in FABRICS.items():
        chooses = f"env {environment} OMPI_MCA_pml_base_verbose=10 {run}"
        lines += [f"echo == {name}", chooses]
    with breathing(cluster):
        job = cluster.submit("\n".join(lines), nodes="4", tasks=4, output="fabrics.out")
        cluster.until_job(job, JobState.COMPLETED, timeout_s=300)
    _, *parts = said(cluster, "fabrics").split("== ")
    by_name = {part.split("\n", 1)[0]: part.splitlines()[1:] for part in parts}
    assert by_name["spoilt"] == ["round 1 is wrong in 1 sums"]
    for name, (selected, _) in FABRICS.items():
        chosen = [line for line in by_name[name] if " best priority " in line]
        assert len(chosen) >= 4
        assert [line for line in by_name[name] if line.startswith("right: ")]
        assert all(line.endswith(selected) for line in chosen), chosen
    # As people run it: the result, and not a word of what is not there.
    assert [line.split(":")[0] for line in by_name["plain"]] == ["begun", "right"]


def said(cluster: Cluster, name: str) -> str:
    """What a job of the researcher wrote so far."""
    return cluster.on("login-1", "cat", f"/home/researcher/{name}.out").stdout


def taken_away(cluster: Cluster, since: datetime) -> set[str]:
    """The nodes that the scaler drained or took away since then, by its journal."""
    folder = cluster.data / cluster.stack / "scaler"
    with closing(open_journal(folder, {}, stack=cluster.stack)) as journal:
        acts = [each.action for each in journal.intents(since=since)]
    return {node for act in acts if isinstance(act, Drain | Remove) for node in act.nodes}
