"""`Testbed`: the machines that a laboratory measures on, and the ways to them. Schedulers are opened with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from tidepool.clients.slurm import Slurm, SlurmClient, Transport
from tidepool.cluster.names import CONTROLLER_HOST, KUBERNETES_ADMIN_ACCESS
from tidepool.cluster.pool import ConvergedPool
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.kubernetes_access import access_path
from tidepool.infrastructures.local import kernel
from tidepool.lab.errors import LabError
from tidepool.lab.hosting.contract import Hosting
from tidepool.lab.hosting.local import LocalHosting

#: On all machines: the volume of /home is mounted there.
HOME: Final = PurePosixPath("/home")
#: Infrastructures whose machines may be this host's.
_HOSTED: Final = ("local", "libvirt")
#: Below it, what processes are started from, and where they write when they started.
PROGRAMS: Final = HOME / ".lab" / "programs"
RECORDS: Final = HOME / ".lab" / "records"


@dataclass(frozen=True, slots=True)
class Testbed:
    """A stack whose pool of machines serves one scheduler at a time.

    Attributes:
        stack: its name.
        machines: names of the pool's machines, in their order; `Death.machine` counts among them.
        cpus_per_machine: processors that jobs can have of each.
        memory_mib: likewise.
        home: the volume of /home, as this host sees it.
        programs: the folder of the programs that jobs run, as machines see it.
        records: the folder in which their processes write, likewise.
        controller: the way to slurmctld's machine, for Slurm's commands.
        kubeconfig: an administrator's, whose server is reached from within the stack's network; None without a Kubernetes.
        pids: the processes of a machine of the stack (also ``ctl``, ``kube``), as this host sees them, with their names.
        data: Tidepool's data folder.
        hosting: the pool's machines by way of this host.
        image_roots: by machine of the pool, and ``ctl``, the root of the image that it has in Slurm, where that is built.
    """

    #: pytest takes classes of such names for tests.
    __test__ = False

    stack: str
    machines: tuple[str, ...]
    cpus_per_machine: int
    memory_mib: int
    home: Path
    programs: PurePosixPath
    records: PurePosixPath
    controller: Transport
    kubeconfig: Path | None
    pids: Callable[[str], Mapping[int, str]]
    data: Path
    hosting: Hosting
    image_roots: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def pool(self) -> str:
        """The machines' pool: a feature of theirs in Slurm, and a label in Kubernetes."""
        return self.machines[0].rpartition("-")[0]

    @property
    def slurm(self) -> SlurmClient:
        """The client of slurmctld."""
        return Slurm(self.controller)

    def here(self, path: PurePosixPath) -> Path:
        """Return a path below /home of the machines as this host sees it.

        Raises:
            ValueError: it is not below /home.
        """
        return self.home / path.relative_to(HOME)


def plan_testbed(
    data: Path,
    stack: str,
    spec: ClusterSpec,
    pool: str = "",
    images: Mapping[str, Path] = MappingProxyType({}),
) -> Testbed:
    """Return the machines that a stack has when it is up; ``pool`` may be left out where there is one on this machine.

    ``images`` are roots of images that are built, by name.

    Raises:
        LabError: the spec has no such pool.
    """
    pools = {each.name: each for each in spec.pools if spec.pool_infrastructure(each) in _HOSTED}
    if not pool and len(pools) == 1:
        (pool,) = pools
    if pool not in pools:
        named = f"no pool {pool!r} of machines here" if pool else "no pool of machines here, or several"
        raise LabError(
            f"the spec of stack {stack} has {named}; write one under `pools`, on the infrastructure local or libvirt, and name it as "
            f"the laboratory's `pool`; there are: {', '.join(pools) or 'none'}"
        )
    chosen = pools[pool]
    machines = tuple(slot.node_name for slot in chosen.slots())
    made_of = {CONTROLLER_HOST: spec.controller_image, **dict.fromkeys(machines, chosen.image_of("slurm"))}
    return Testbed(
        stack=stack,
        machines=machines,
        cpus_per_machine=chosen.shape.cpus,
        memory_mib=chosen.shape.memory_mib,
        home=data / stack / "volumes" / "home",
        programs=PROGRAMS,
        records=RECORDS,
        controller=transport({"kind": "local", "stack": stack, "machine": CONTROLLER_HOST}, data),
        kubeconfig=access_path(data, stack, KUBERNETES_ADMIN_ACCESS) if spec.kubernetes is not None else None,
        pids=lambda machine: processes(data, stack, machine),
        data=data,
        hosting=_hosting(data, stack, spec, chosen),
        image_roots={machine: images[image] for machine, image in made_of.items() if image in images},
    )


def _hosting(data: Path, stack: str, spec: ClusterSpec, pool: ConvergedPool) -> Hosting:
    here = LocalHosting(data, stack)
    if spec.pool_infrastructure(pool) == "local":
        return here
    from tidepool.lab.hosting.libvirt import hosting_of

    return hosting_of(spec, pool, here)


def processes(data: Path, stack: str, machine: str) -> Mapping[int, str]:
    """Return the processes of a machine of this host by their ids here, with their names (15 characters); none of one that is dead."""
    found = {}
    for pid in kernel.processes(data, stack, machine):
        try:
            found[pid] = Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
        except OSError:
            continue  # it ended meanwhile
    return found
