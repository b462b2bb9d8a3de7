"""One program of Open MPI over the pods of a job, without ssh: mpirun's daemons are started by files of the shared /home.

Each pod but the first says that it is there by a file of its host name, which holds its uid, and waits for a command. mpirun runs in
the first one, and calls the agent with a host name and the command of its daemon, as it would call ssh. A pod that is made anew has
another uid: the agent tells the one that is there, until that says that it took the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

#: In the launch folder, with the rights of a program.
AGENT_NAME: Final = "agent"
AGENT: Final = """\
#!/bin/sh
# agent HOST COMMAND...: has the pod of that host name run the command.
set -u
host=$1 told= uid=
shift
while :; do
    { read -r uid <"$LAB_LAUNCH/$host"; } 2>/dev/null || uid=
    if [ "$uid" ] && [ "$uid" != "$told" ]; then
        printf '%s\\n' "$*" >"$LAB_LAUNCH/$uid.new"
        mv "$LAB_LAUNCH/$uid.new" "$LAB_LAUNCH/$uid.command"
        told=$uid
    fi
    [ "$told" ] && [ -e "$LAB_LAUNCH/$told.taken" ] && exit 0
    sleep 0.02
done
"""
_POD: Final = """\
set -eu
export LAB_LAUNCH="$1" HOME=/root USER=root TMPDIR=/tmp
hosts=$2 tasks=$3
shift 3
mkdir -p "$LAB_LAUNCH" /tmp /root
if [ "$JOB_COMPLETION_INDEX" = 0 ]; then
    exec mpirun --allow-run-as-root --leave-session-attached -np "$tasks" -H "$hosts" --bind-to none \\
        --mca plm rsh --mca plm_rsh_no_tree_spawn 1 --mca plm_rsh_agent "${LAB_LAUNCH%/*}/agent" \\
        --mca oob tcp --mca btl tcp,self,vader --mca btl_vader_single_copy_mechanism none -- "$@"
fi
mine=$LAB_LAUNCH/$POD_UID
printf '%s\\n' "$POD_UID" >"$mine.host"
mv "$mine.host" "$LAB_LAUNCH/$(hostname)"
until [ -e "$mine.command" ]; do sleep 0.02; done
: >"$mine.taken"
exec /bin/sh "$mine.command"
"""


def mpi_command(command: Sequence[str], launch: PurePath, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the command of each pod of a job, whose tasks are one program of MPI.

    Args:
        command: that of one task.
        launch: the job's folder for this, as machines see it; it is made, and the agent is beside it.
        hosts: the host names of the pods, by rank.
    """
    return ("/bin/sh", "-c", _POD, "pod", str(launch), ",".join(hosts), str(len(hosts)), *command)
