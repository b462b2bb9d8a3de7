"""The cluster's own file server: the boot of its machine."""

from __future__ import annotations

from collections.abc import Sequence

from pulumi import Input

from tidepool.cluster import ganesha
from tidepool.cluster.boot import Folder, Service
from tidepool.cluster.ganesha import Export, ganesha_conf
from tidepool.cluster.spec import ClusterSpec
from tidepool.components.boots import RUN_FOLDERS, Keys
from tidepool.components.scratch import SCRATCH
from tidepool.components.ssh_access import SSHD
from tidepool.infrastructures.contract import Boot, File, Infrastructure, Mount, Storing

_HOME = "home"
#: Folders of slurmctld and slurmdbd, which machines share where an infrastructure has no volumes of its own.
_STATE = ("slurmctld", "database")
#: It finds file systems by the table of mounts, which an image has only where systemd makes it.
_SERVE = """\
test -e /etc/mtab || ln -sf ../proc/self/mounts /etc/mtab
exec ganesha.nfsd -F -N NIV_EVENT -L STDERR -p /run/ganesha/ganesha.pid
"""


def served_by(
    infrastructure: Infrastructure, home: Input[str], scratch: Sequence[Mount]
) -> tuple[Mount, ...]:
    """Return what the server mounts to serve it: a disk for all, or each volume as others mount it."""
    if isinstance(infrastructure, Storing):
        return (Mount(infrastructure.store(), ganesha.STORE, read_only=False),)
    sources = [(_HOME, home), *((SCRATCH, each.source) for each in scratch)]
    return tuple(Mount(source, f"{ganesha.STORE}/{name}", read_only=False) for name, source in sources)


def file_server_boot(keys: Keys, spec: ClusterSpec, mounts: Sequence[Mount]) -> Boot:
    """Run sshd and nfs-ganesha. What people have is served to the whole network, what daemons have to the cluster's own machines.

    Of nodes, on which people's programs run, root is nobody.
    """
    own = spec.own_addresses.range
    people = [_HOME, *([SCRATCH] if spec.scratch else [])]
    has_all = any(mount.target == ganesha.STORE for mount in mounts)
    daemons = _STATE if has_all else ()
    exports = [
        *(Export(name, own, spec.network) for name in people),
        *(Export(name, own) for name in daemons),
    ]
    served = Service(
        "ganesha",
        ("/bin/sh", "-ec", _SERVE),
        ready=f"tcp:{ganesha.PORT}",
        ready_timeout_s=120.0,
        stop_timeout_s=10,
        # It opens files by the handles that clients have of them.
        capabilities=("dac_read_search",),
    )
    return Boot(
        services=(SSHD, served),
        files=(
            keys.root_file,
            File(ganesha.CONFIGURATION, ganesha_conf(spec.own_addresses.file_server, exports)),
        ),
        folders=(
            *RUN_FOLDERS[1:],
            Folder("/run/ganesha"),
            *(Folder(f"{ganesha.STORE}/{export.name}") for export in exports),
        ),
        mounts=tuple(mounts),
    )
