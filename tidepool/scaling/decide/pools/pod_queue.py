"""The pods that wait: those that a machine more would help, by what they ask for, and why it does not help the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tidepool.clients.kubernetes.objects import Pod
from tidepool.scaling.decide.pools.pod_ask import PodAsk, ask_of, extended_of
from tidepool.scaling.decision import WaitingPod

#: For so long Kubernetes may leave a pod waiting for which there seems to be room; then it is given a machine of its own.
OWN_MACHINE_AFTER: Final = timedelta(seconds=10)
#: After so long none is given to it any more: whatever it waits for, it is not machines. Later it is tried again.
GIVEN_UP_AFTER: Final = timedelta(minutes=5)
TRIED_AGAIN_AFTER: Final = timedelta(hours=1)
#: Within this time the scheduler says what it thinks of a new pod.
_LOOKED_AT_AFTER: Final = timedelta(seconds=10)


class PodGroup(NamedTuple):
    """Pods that ask for the same, in their order.

    ``moves``: a machine may be moved for them, for the scheduler said that it finds none; else they only take of what is
    there. ``alone``: only a machine will do that nobody has anything of.
    """

    ask: PodAsk
    pods: tuple[Pod, ...]
    moves: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class PodQueue:
    """All that waits: groups, the first of which is served first; and what is no machine's matter."""

    groups: tuple[PodGroup, ...]
    waiting: Mapping[str, WaitingPod]
    #: By uid, those that are given no machine any more.
    given_up: frozenset[str]
    extended: tuple[str, ...]


def pod_queue(pods: tuple[Pod, ...], room_since: Mapping[str, datetime], at: datetime) -> PodQueue:
    """Read the queue. ``room_since``: by a pod's uid, since when there seems to be room for it."""
    pending = [pod for pod in pods if _waits(pod)]
    extended = extended_of(pods)
    waiting: dict[str, WaitingPod] = {}
    given_up: set[str] = set()
    found: dict[tuple[int, bool, bool, PodAsk], list[Pod]] = {}
    for pod in sorted(pending, key=lambda each: (-each.priority, each.created, each.key)):
        since = room_since.get(pod.uid)
        waited = at - since if since is not None else timedelta(0)
        alone = bool(pod.unschedulable) and OWN_MACHINE_AFTER <= waited < TRIED_AGAIN_AFTER
        if pod.is_held:
            reason = "its scheduling gates, or a scheduler of its own, hold it back"
        elif not pod.unschedulable and at - pod.created >= _LOOKED_AT_AFTER:
            reason = "the scheduler has said nothing of it yet; is kube-scheduler at work?"
        elif since is not None and alone and waited >= GIVEN_UP_AFTER:
            given_up.add(pod.uid)
            reason = (
                f"there has been room for it since {since:%H:%M:%S} UTC, and the scheduler does not use it: "
                f"{pod.unschedulable}"
            )
        else:
            key = (pod.priority, bool(pod.unschedulable), alone, ask_of(pod, extended))
            found.setdefault(key, []).append(pod)
            continue
        waiting[pod.key] = WaitingPod(pod.key, "held", reason)
    groups = [PodGroup(ask, tuple(each), moves, alone) for (_, moves, alone, ask), each in found.items()]
    groups.sort(key=lambda group: (-group.pods[0].priority, group.moves, *(-part for part in group.ask.need)))
    return PodQueue(tuple(groups), waiting, frozenset(given_up), extended)


def _waits(pod: Pod) -> bool:
    """A pod of a DaemonSet is for one node; one that is being deleted for none."""
    return not pod.node and not pod.has_ended and pod.deleting_until is None and not pod.is_daemon
