"""Controllers that stand by: slurmctld before 23.11 is in charge once, and what has it started anew after that.

It keeps the id of the thread of its scheduler when that one has ended (`main_sched_fini`, mended in 23.11). So where it gave
back control and takes over once more, only the backfill scheduler starts jobs, and when it gives back control again it
waits for a thread that never ends: it stands by no more, hears no SIGTERM, and the primary waits half a minute for it,
to read a state that may be old (seen with 22.05.8).
"""

from __future__ import annotations

from typing import Final

from tidepool.cluster.slurm_options import Value
from tidepool.cluster.spec import ClusterSpec

#: On the machines of controllers: what slurmctld runs when it is in charge from now on, and when it stands by from now on; and a
#: folder of its own, where the first says so to the second.
IN_CHARGE_PROGRAM: Final = "/usr/local/lib/tidepool/slurmctld-in-charge"
STANDS_BY_PROGRAM: Final = "/usr/local/lib/tidepool/slurmctld-stands-by"
FOLDER: Final = "/run/slurmctld"

_MENDED: Final = "23.11"


def settings(spec: ClusterSpec) -> dict[str, Value]:
    """For slurm.conf; empty where nobody stands by, or one that does may be in charge again and again."""
    stands_by = spec.controller.backup or spec.controller_slot is not None
    if not stands_by or spec.slurm_version >= _MENDED:
        return {}
    return {"SlurmctldPrimaryOnProg": IN_CHARGE_PROGRAM, "SlurmctldPrimaryOffProg": STANDS_BY_PROGRAM}
