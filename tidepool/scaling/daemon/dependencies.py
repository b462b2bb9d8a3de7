"""Dependencies of the daemon's turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tidepool.infrastructures import Infrastructure
from tidepool.scaling.cluster_state import ClusterState
from tidepool.scaling.decision import Decision
from tidepool.scaling.memory import Memory
from tidepool.scaling.observe.observe import Observer
from tidepool.scaling.ports import Journal, Stack, UpOutcome
from tidepool.scaling.power.spool import Requests

#: How long a leader may be silent until another takes over: longer than Slurm may let it wait for an answer.
LEASE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Dependencies of the loop. ``say`` is told of all that happens: a name, and what goes with it."""

    holder: str
    journal: Journal
    observer: Observer
    stack: Stack
    machines: Infrastructure
    decide: Callable[[ClusterState, Memory], Decision]
    remember: Callable[[Memory, UpOutcome, datetime], Memory]
    #: Runs one `up` at a time.
    beside: Executor
    now: Callable[[], datetime]
    #: Never goes back, and goes on while this process is stopped.
    monotonic_s: Callable[[], float]
    say: Callable[..., None]
    #: Called by whatever thread has ended an `up`.
    wake: Callable[[], None] = lambda: None
    #: What Slurm's power saving asks for, on the controller that a connection leads to. None where nothing can.
    open_requests: Callable[[Mapping[str, Any]], Requests] | None = None
    #: Called when it begins to lead: what it will need can be prepared.
    prepare: Callable[[], object] = lambda: None
    #: Whether the holder of a lease has certainly ended.
    is_gone: Callable[[str], bool] = lambda _: False
    lease_s: float = LEASE_S
