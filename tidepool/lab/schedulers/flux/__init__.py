"""Flux, of a flux-core that a person has: brokers on the laboratory's machines, while these serve Slurm and its queue is empty."""

from __future__ import annotations

from collections.abc import Mapping

from tidepool.clients.transport import ClientError, Transport
from tidepool.cluster.names import CONTROLLER_HOST
from tidepool.lab.errors import LabError
from tidepool.lab.schedulers.contract import Scheduler
from tidepool.lab.schedulers.flux.brokers import FLUX, Brokers
from tidepool.lab.schedulers.flux.scheduler import FluxScheduler
from tidepool.lab.schedulers.kind import SchedulerKind
from tidepool.lab.testbed import HOME, Testbed

_FOLDER = HOME / ".lab" / "flux"
_ASKED_S = 30.0


def _ways(testbed: Testbed) -> Mapping[str, Transport]:
    return {name: testbed.hosting.way(name) for name in testbed.machines}


def _missing(testbed: Testbed) -> tuple[str, ...]:
    ways = {CONTROLLER_HOST: testbed.controller, **_ways(testbed)}
    lacking = [way.where for machine, way in ways.items() if not _may_have_flux(testbed, machine, way)]
    remedy = (
        "build the image debian-12-flux with TIDEPOOL_FOLDER_FLUX naming a flux-core that was built for /opt/flux "
        "(docs/images.md#folders), and write `image: debian-12-flux` into the spec and into its pool"
    )
    return (
        (f"there is no Flux {', '.join(lacking)}: {FLUX} is not there, or does not run; {remedy}",)
        if lacking
        else ()
    )


def _may_have_flux(testbed: Testbed, machine: str, way: Transport) -> bool:
    """Ask a machine that runs, else look into its image; where that is not built either, nobody knows yet."""
    if not testbed.pids(machine):
        root = testbed.image_roots.get(machine)
        return root is None or (root / FLUX.lstrip("/")).exists()
    try:
        return way.run([FLUX, "--version"], timeout_s=_ASKED_S).exit_code == 0
    except ClientError:
        return False


def _open(testbed: Testbed, options: Mapping[str, object]) -> Scheduler:
    if options:
        raise LabError(
            f"flux has no options, and {', '.join(sorted(options))} are given; take `options` away"
        )
    brokers = Brokers(
        leader=testbed.controller,
        machines=_ways(testbed),
        cores=testbed.cpus_per_machine,
        here=testbed.here(_FOLDER),
        there=_FOLDER,
        names=testbed.pids,
        leader_machine=CONTROLLER_HOST,
    )
    return FluxScheduler(brokers, testbed.programs)


KIND = SchedulerKind(name="flux", family="flux", side="slurm", missing=_missing, open=_open)
