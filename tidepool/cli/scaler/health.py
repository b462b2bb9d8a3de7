"""Whether somebody looks after the cluster: the daemon runs, is late, is paused, or is not there. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tidepool.cli.scaler.record import Record
from tidepool.cli.scaler.words import ago, between, clock
from tidepool.scaling.ports import Lease

#: A look that is older is told as such.
STALE_S: Final = 15.0

#: `late`: it lives, and has not looked for a while. `stopped`: its lease has ended. `never`: none ever ran.
State = Literal["runs", "late", "stopped", "never"]

#: What mends it where no daemon runs.
START: Final = "`tidepool scale` starts it"
GO_ON: Final = "`tidepool continue` lets it go on"


@dataclass(frozen=True, slots=True)
class Health:
    """``words`` say how the daemon is, ``paused`` who paused it (else empty), ``age_s`` how old the newest look is."""

    state: State
    words: str
    remedy: str = ""
    paused: str = ""
    #: What the daemon complains of.
    trouble: tuple[str, ...] = ()
    age_s: float | None = None
    holder: str = ""
    epoch: int = 0

    @property
    def is_stale(self) -> bool:
        """Whether what is shown is older than it should be."""
        return self.age_s is not None and self.age_s > STALE_S

    @property
    def is_well(self) -> bool:
        """Whether the cluster breathes."""
        return self.state == "runs" and not self.paused and not self.trouble


def health(record: Record) -> Health:
    """How the daemon of ``record`` is."""
    decision, leader = record.decision, record.leader
    age_s = (record.now - decision.at).total_seconds() if decision else None
    state, words, remedy = _state(record, age_s)
    return Health(
        state,
        words,
        remedy,
        _paused(record),
        record.trouble.complaints if record.trouble and record.runs else (),
        age_s,
        leader.holder if leader else "",
        leader.epoch if leader else 0,
    )


def _state(record: Record, age_s: float | None) -> tuple[State, str, str]:
    leader, decision, now = record.leader, record.decision, record.now
    if leader is None:
        return "never", "no daemon has run for this stack yet", START
    who = f"{who_leads(leader)}, epoch {leader.epoch}"
    if not leader.is_held:
        looked = f", and looked last {ago(decision.at, now)}" if decision and not record.is_afresh else ""
        return "stopped", f"the daemon does not run: it was ended{looked} ({who})", START
    if not record.runs:
        return "stopped", f"the daemon does not run: its lease ended {ago(leader.until, now)} ({who})", START
    if record.is_afresh:
        return "runs", f"the daemon runs ({who})", ""
    if decision is None or age_s is None:
        return "late", f"the daemon has begun, and has not decided yet ({who})", ""
    if age_s > STALE_S:
        words = f"the daemon lives and has not looked for {between(decision.at, now)} ({who})"
        return "late", words, "" if record.trouble else "`tidepool status` says whether Slurm answers"
    return "runs", f"the daemon runs ({who}), and looked {ago(decision.at, now)}", ""


def who_leads(leader: Lease) -> str:
    """``ctl/77``: the host and the process; by the rest of a holder's name, processes are told apart."""
    return "/".join(leader.holder.split("/")[:2])


def _paused(record: Record) -> str:
    if record.pause is None:
        return ""
    why = f": {record.pause.reason}" if record.pause.reason else ""
    since = clock(record.pause.since, record.now)
    return f"paused by {record.pause.by} since {since}{why}; it looks and decides, and acts on nothing"
