"""Programs that a campaign's jobs run, and their compilation for the machines."""

from __future__ import annotations

from tidepool.cli import show
from tidepool.cli.lab.machines import LabMachines
from tidepool.images import ImageStore
from tidepool.lab.campaign import Campaign
from tidepool.lab.laboratory import Laboratory
from tidepool.lab.programs.build import MPI_IMAGE, build
from tidepool.lab.programs.command import MPI_PROGRAMS, program_of


def programs_of(laboratory: Laboratory, campaign: Campaign) -> frozenset[str]:
    """Return the programs that its workloads run, in any repeat."""
    return frozenset(
        program_of(job)
        for name in campaign.workloads
        for repeat in range(campaign.repeats + 1)
        for job in laboratory.workload(name, campaign.seed_of(name, repeat)).jobs
    )


def build_programs(programs: frozenset[str], machines: LabMachines, images: ImageStore) -> None:
    """Compile them into the volume that all machines see; for those of MPI build the image that has its headers.

    Raises:
        LabError: that image does not build, or a program does not compile.
    """
    root = None
    if programs & MPI_PROGRAMS:
        show.tell(f"building the image {MPI_IMAGE}, where it is not there: it has Open MPI's headers")
        machines.build_image(MPI_IMAGE)
        root = images.newest()[MPI_IMAGE].root
    testbed = machines.testbed
    build(testbed.here(testbed.programs), sorted(programs), mpi_root=root)
