"""A machine that runs jobs: slurmd, under the name of a slot of its fleet."""

from __future__ import annotations

from collections.abc import Sequence

from pulumi import Input

from tidepool.cluster import hostlist
from tidepool.cluster.shape import Shape
from tidepool.components.boots.shared import MUNGED, RUN_FOLDERS, SSHD, Keys
from tidepool.infrastructures.boot import Boot, Device, Mount, Service


def node_boot(
    keys: Keys, *, home: Input[str], controllers: Sequence[str], shape: Shape, is_named: bool = False
) -> Boot:
    """Run munged, slurmd and sshd.

    slurmd has no files of its own: it asks ``controllers`` (host names, the first in charge) for them. It tells the
    shape of its slot; features are the slot's alone, so that they change without another boot. With ``is_named``,
    slurm.conf has a line for the slot, which says all of that, and a slurmd that says it again ends.
    """
    # -b: with the host's boot time Slurm would take a machine for one that it has known for long.
    asks = ("/usr/sbin/slurmd", "-D", "-b", "--conf-server", ",".join(controllers))
    tells = () if is_named else ("-Z", "--conf", _conf(shape))
    slurmd = Service("slurmd", (*asks, *tells), ready="tcp:6818")
    return Boot(
        services=(MUNGED, slurmd, SSHD),
        files=keys.files,
        folders=RUN_FOLDERS,
        mounts=(Mount(home, "/home", read_only=False),),
        devices=tuple(Device(path) for gres in shape.gres for path in _paths(gres.files)),
    )


def _conf(shape: Shape) -> str:
    sockets, cores, threads = shape.layout
    said = (
        f"CPUs={shape.cpus} Sockets={sockets} CoresPerSocket={cores} ThreadsPerCore={threads} "
        f"RealMemory={shape.memory_mib}"
    )
    return f"{said} Gres={','.join(map(str, shape.gres))}" if shape.gres else said


def _paths(files: str | None) -> list[str]:
    if files is None:
        return []
    folder, _, names = files.rpartition("/")
    return [f"{folder}/{name}" for name in hostlist.expand(names)]
