"""Records of slurmdbd of the time that jobs had, and the limit by which an account starts no more of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from tidepool.clients.slurm.accounting import Accounting
from tidepool.clients.slurm.client import ENVIRONMENT, Slurm
from tidepool.clients.slurm.commands import judge
from tidepool.clients.slurm.contract import Malformed
from tidepool.clients.slurm.limits import Limited
from tidepool.clients.slurm.quantities import memory_mib, text, tres
from tidepool.clients.transport import Transport

#: Slurm's limit on jobs that run in an account and below it. With 0 none begins, and those that run go on; Slurm says
#: `AssocGrpJobsLimit` of those that wait, whether there are nodes or not. (Of GrpTRESRunMins it does so only where it finds
#: nodes for them, and by GrpTRESMins it ends those that run.)
HOLDING_LIMIT: Final = "GrpJobs"

#: The scaler waits for it, and has a lease to renew.
_CHANGE_TIMEOUT_S: Final = 10.0
#: Of a day of 3,000 jobs sacct takes a second; longer spans are asked for one by one.
_USAGE_TIMEOUT_S: Final = 60.0
_COLUMNS: Final = ("Account", "User", "NodeList", "AllocTRES", "ElapsedRaw", "Start", "End")


class JobTime(NamedTuple):
    """The time that a job had within a span: on which nodes, from ``begin`` to ``end`` in seconds since the epoch.

    ``elapsed_s`` is how long it ran of that: not while it was suspended. Of all its nodes together it has ``cpus``,
    ``memory_mib`` and ``gres`` by name (``gpu``, ``gpu:a100``).
    """

    account: str
    user: str
    nodes: str
    begin: int
    end: int
    elapsed_s: int
    cpus: int
    memory_mib: int = 0
    gres: Mapping[str, int] = {}


class AccountRecords:
    """Records of ``cluster`` in slurmdbd, by the commands of a machine. Every call raises `SlurmError`."""

    def __init__(self, transport: Transport, cluster: str) -> None:
        self._transport, self._cluster = transport, cluster

    def job_times(self, begin: int, end: int) -> tuple[JobTime, ...]:
        """Return what jobs had from ``begin`` to ``end``; of one that was requeued, each time that it ran."""
        argv = [
            "sacct", "--allusers", "--allocations", "--duplicates", "--truncate", "--parsable2", "--noheader",
            f"--clusters={self._cluster}", f"--starttime=uts{begin}", f"--endtime=uts{end}",
            f"--format={','.join(_COLUMNS)}",
        ]  # fmt: skip
        completed = self._transport.run([*ENVIRONMENT, *argv], timeout_s=_USAGE_TIMEOUT_S)
        try:
            return tuple(_times(judge(argv, completed, self._transport.where)))
        except ValueError as fault:
            raise Malformed(
                f"sacct's answer is not what was asked for: {fault}",
                where=f"sacct {self._transport.where}",
                remedy="ask again; if it stays, this version of Slurm writes it in another form",
            ) from fault

    def limits(self) -> tuple[Limited, ...]:
        """Return the limits that slurmctld holds accounts and users to."""
        return Slurm(self._transport).limits()

    def set_holding_limit(self, accounts: Collection[str], value: str) -> None:
        """Set `HOLDING_LIMIT` of accounts; ``-1`` takes it away."""
        Accounting(self._transport, self._cluster, _CHANGE_TIMEOUT_S).set_limit(
            accounts, HOLDING_LIMIT, value
        )

    def close(self) -> None:
        self._transport.close()


def held_accounts(limits: Collection[Limited]) -> Mapping[str, bool]:
    """Return by account whether `HOLDING_LIMIT` lets none of its jobs begin."""
    return {
        each.account: use is not None and use.value == "0"
        for each in limits
        if each.account and not each.user
        for use in [each.limits.get((HOLDING_LIMIT, ""))]
    }


def _times(written: str) -> Iterator[JobTime]:
    for line in written.splitlines():
        account, user, nodes, allocated, elapsed, begin, end = line.split("|")
        # One that never began has no nodes; sacct says `None assigned`.
        if int(elapsed) == 0 or not allocated or text(nodes) in ("", "None assigned"):
            continue
        has = tres(allocated)
        yield JobTime(
            account, user, nodes, int(begin), int(end), int(elapsed),
            int(has.get("cpu", "0")),
            memory_mib(has.get("mem", "0")),
            {name[len("gres/") :]: int(amount) for name, amount in has.items() if name.startswith("gres/")},
        )  # fmt: skip
