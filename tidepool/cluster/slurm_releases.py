"""Releases of Slurm: those that there are, which of them work together, and what they do differently.

The one place that knows; which keys each release has in its files is beside it, in `slurm_keys`.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Release = Literal["22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05"]
#: In the order in which they came.
RELEASES: Final[tuple[Release, ...]] = get_args(Release)
#: Those of them that Tidepool was run with: clusters of others are refused until they are.
RunRelease = Literal["22.05", "24.11", "26.05"]


def release_of(version: str) -> str:
    """Return the release of a ``version`` as programs and packages have it: of 24.11.5-4+deb13u1 it is 24.11."""
    return ".".join(version.split(".")[:2])


def served_by(controller: Release) -> tuple[Release, ...]:
    """Return the releases of slurmd, and of commands, that slurmctld of ``controller`` talks to; the newest first.

    Slurm's upgrade guide promises its own, and the two before it; from 24.11 on the three before it. It never promises
    a newer one: the controller's machine is the first that gets a new release.
    """
    newest = RELEASES.index(controller)
    before = 3 if controller >= "24.11" else 2
    return tuple(reversed(RELEASES[max(newest - before, 0) : newest + 1]))


def takes_over_again(release: Release) -> bool:
    """Return whether a slurmctld that gave back control may be in charge once more.

    One before 23.11 keeps the id of the thread of its scheduler when that one has ended (`main_sched_fini`). So where it
    gave back control and takes over once more, only the backfill scheduler starts jobs, and when it gives back control
    again it waits for a thread that never ends: it stands by no more, hears no SIGTERM, and the primary waits half a
    minute for it, to read a state that may be old (seen with 22.05.8).
    """
    return release >= "23.11"


def finds_created_nodes(release: Release) -> bool:
    """Return whether steps start on nodes that `scontrol create` made, whatever slurmctld went through.

    With 22.05.8 slurmctld has the addresses of such nodes with each job, and not in its saved state: once it has started anew,
    also after a crash, no `srun` of a job that was running finds its nodes. After a reconfigure they count their jobs twice. With
    24.11.5 both are well; and there partitions have none of the FUTURE nodes of slurm.conf, which 22.05.8 has.
    """
    return release >= "23.11"


def plugin_without_cgroups(release: Release) -> str:
    """Return the CgroupPlugin of cgroup.conf by which slurmd leaves cgroups alone.

    Releases before 23.11 have no word for it. Left to itself, slurmd of 22.05 asks systemd for a group where there is
    version 2 only, and ends without (measured); the plugin for version 1 touches nothing when nobody asks it.
    """
    return "disabled" if release >= "23.11" else "cgroup/v1"
