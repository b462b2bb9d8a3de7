"""Programs that slurmctld calls, and what slurm.conf says of them: for power saving, and where controllers stand by.

With `scaling.mode: power_save` Slurm asks for nodes and gives them back; what it calls only writes that down, and the
scaler does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from tidepool.cluster import hostlist, names
from tidepool.cluster.slurm_options import Value
from tidepool.cluster.slurm_releases import takes_over_again
from tidepool.cluster.spec import ClusterSpec

#: On slurmctld's machine: what Slurm calls, what that is made of, and the folder where requests wait. The folder is
#: slurmctld's own, so a backup controller has it too.
UP_PROGRAM: Final = "/usr/local/lib/tidepool/power-up"
DOWN_PROGRAM: Final = "/usr/local/lib/tidepool/power-down"
REQUEST_PROGRAM: Final = "/usr/local/lib/tidepool/power_request.py"
SPOOL: Final = "/var/spool/slurmctld/power"

#: What lists of slurm.conf hold, whatever a person adds to them; of words with a value, a person's own goes before.
REQUIRED_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    # A node that did not come, or was drained, is fit for use when it was powered down. Slurm looks each second, and
    # not each ten, whether a node has been idle for too long.
    "slurmctldparameters": ("idle_on_node_suspend", "power_save_interval=1"),
    # Else nobody is told of nodes that are powered down, who could say what slots there are?
    "privatedata": ("cloud",),
}

_LONGEST_TIMEOUT_S: Final = 65_533


def saves_power(spec: ClusterSpec) -> bool:
    """Return whether Slurm's power saving asks for nodes."""
    return spec.scaling.mode == "power_save"


def absent_state(spec: ClusterSpec) -> Literal["FUTURE", "CLOUD"]:
    """Return the state of a slot whose node is not there, as `scontrol create` takes it."""
    return "CLOUD" if saves_power(spec) else "FUTURE"


def power_saving_settings(spec: ClusterSpec) -> dict[str, Value]:
    """Return the settings of power saving for slurm.conf."""
    excluded = [slot.node_name for fleet in spec.fleets for slot in fleet.slots()[: fleet.min_nodes]]
    return {
        "ResumeProgram": UP_PROGRAM,
        "SuspendProgram": DOWN_PROGRAM,
        # Its machine may be there after all: it has to go before the node is asked for again.
        "ResumeFailProgram": DOWN_PROGRAM,
        # The scaler gives a node up long before: this is for a scaler that is away.
        "ResumeTimeout": min(max(300, 4 * spec.scaling.boot_timeout_s), _LONGEST_TIMEOUT_S),
        "SuspendTimeout": 30,
        # No limits a minute; the scaler has its own.
        "ResumeRate": 0,
        "SuspendRate": 0,
        # Fleets say it below.
        "SuspendTime": "INFINITE",
        **({"SuspendExcNodes": hostlist.fold(excluded)} if excluded else {}),
        "PrivateData": "cloud",
    }


def power_saving_partitions(spec: ClusterSpec) -> Iterator[list[tuple[str, Value]]]:
    """A partition for each fleet that nobody can use, by which Slurm knows when its nodes have been idle for too long.

    Releases before 26.05 have no such setting for nodes. Of the power_saving_partitions of a node that have one, the longest counts,
    and those that people use have none.
    """
    for fleet in spec.fleets:
        yield [
            ("PartitionName", f"{names.RESERVED_PARTITIONS}{fleet.name}"),
            ("Nodes", f"ns_{fleet.name}"),
            ("Hidden", True),
            ("RootOnly", True),
            ("State", "UP"),
            ("SuspendTime", str(max(fleet.idle_timeout_s, 1))),
        ]


#: On the machines of controllers: what slurmctld runs when it is in charge from now on, and when it stands by from now on; and a
#: folder of its own, where the first says so to the second.
IN_CHARGE_PROGRAM: Final = "/usr/local/lib/tidepool/slurmctld-in-charge"
STANDS_BY_PROGRAM: Final = "/usr/local/lib/tidepool/slurmctld-stands-by"
FOLDER: Final = "/run/slurmctld"


def takeover_settings(spec: ClusterSpec) -> dict[str, Value]:
    """Return the settings for slurm.conf; empty where nobody stands by, or who does may be in charge again and again."""
    stands_by = spec.controller.backup or spec.controller_slot is not None
    if not stands_by or takes_over_again(spec.slurm_version):
        return {}
    return {"SlurmctldPrimaryOnProg": IN_CHARGE_PROGRAM, "SlurmctldPrimaryOffProg": STANDS_BY_PROGRAM}
