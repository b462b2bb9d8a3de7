"""Answers of Slurm's commands, judged: an answer, or the error that it tells of.

Exit codes alone do not do: some commands end with 0 and an error on stderr, and some with 1 where there is merely
nothing to list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidepool.clients.slurm.contract import (
    ControllerDown,
    DatabaseDown,
    NotFound,
    PermissionDenied,
    Refused,
    SlurmError,
)
from tidepool.clients.transport import Completed, TimedOut, Unreachable

#: Slurm's words (src/common/slurm_errno.c and the commands, 22.05 to 25.11) for what is no refusal of a request.
_DATABASE_DOWN = re.compile(
    r"Unable to (?:contact|connect to) database|slurm_persist_conn_open|Problem talking to the database"
    r"|Unable to contact slurmdbd|Sending PersistInit msg",
    re.IGNORECASE,
)
_CONTROLLER_DOWN = re.compile(
    r"Unable to contact slurm controller|(?:backup controller|Controller is) in standby mode"
    r"|Zero Bytes were transmitted|Could not establish a configuration source|Connection refused"
    r"|Communication (?:connection|shutdown) failure|Message (?:send|receive) failure"
    # What a reconfigure is told by one that is ending.
    r"|Operation now in progress",
    re.IGNORECASE,
)
_TIMED_OUT = re.compile(r"Socket timed out|Connection timed out", re.IGNORECASE)
_NOT_FOUND = re.compile(
    r"Invalid job id specified|Invalid node name|^(?:Node|Partition|Reservation) .* not found"
    r"|Requested reservation is invalid|Reservation .* not found|Invalid partition name",
    re.IGNORECASE | re.MULTILINE,
)
_DENIED = re.compile(
    r"permission denied|privilege|Invalid authentication credential|Protocol authentication error"
    r"|authentication agent|Munge encode failed|not authorized|only .*(?:root|administrator)",
    re.IGNORECASE,
)
_UNAUTHENTICATED = re.compile(r"Munge encode failed|authentication error", re.IGNORECASE)
#: What tells of an error beside an exit code of 0. Warnings do not.
_ERROR = re.compile(r"\b(?:error|fatal):|_error\b|\w+ error(?::|$)", re.IGNORECASE | re.MULTILINE)

_WITHOUT_PREFIX = re.compile(r"^(?:\w+: )?(?:error|fatal): |^slurm_\w+ error: ", re.MULTILINE)


def judge(argv: Sequence[str], completed: Completed, where: str) -> str:
    """The standard output of the command ``argv``, when it did what it was asked for.

    Raises:
        SlurmError: of the type that Slurm's words tell of.
    """
    if completed.exit_code == 0 and not _ERROR.search(completed.stderr):
        return completed.stdout
    raise error_of(argv, completed, where)


def error_of(argv: Sequence[str], completed: Completed, where: str) -> SlurmError:
    """The error that a command of Slurm tells of."""
    command = argv[0]
    said = completed.stderr.strip() or completed.stdout.strip()
    place = f"{command} {where}"
    if completed.exit_code == 127 or (completed.exit_code == 126 and command not in said):
        return Unreachable(
            f"{command} is not there", where=place, remedy="install Slurm's commands there, or correct PATH"
        )
    told = [line for line in said.splitlines() if _ERROR.search(line)] or [said]
    words = _WITHOUT_PREFIX.sub("", "\n".join(told)) or (
        f"exit code {completed.exit_code} without a word" if completed.exit_code >= 0 else "ended by a signal"
    )
    # Without munge nobody can be asked, be he up or not.
    if _DATABASE_DOWN.search(said) and not _UNAUTHENTICATED.search(said):
        return DatabaseDown(
            f"slurmdbd does not answer: {words}",
            where=place,
            remedy="see whether slurmdbd and its database run",
        )
    if _TIMED_OUT.search(said):
        return TimedOut(
            f"slurmctld did not answer in time: {words}", where=place, remedy="see whether slurmctld hangs"
        )
    if _CONTROLLER_DOWN.search(said):
        return ControllerDown(
            f"slurmctld does not answer: {words}",
            where=place,
            remedy="see whether slurmctld runs, and whether SLURM_CONF names the right cluster",
        )
    kind: type[Refused]
    if _DENIED.search(said):
        kind, remedy = (
            PermissionDenied,
            "run as root or SlurmUser, and see that munged runs with the cluster's key",
        )
    elif _NOT_FOUND.search(said):
        kind, remedy = NotFound, "look for its name in what Slurm lists"
    else:
        kind, remedy = Refused, "correct the request; slurmctld's log may say more"
    return kind(f"Slurm refused: {words}", words=words, where=place, remedy=remedy)
