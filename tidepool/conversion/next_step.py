"""The next step of a conversion: pure, from the journal, the observations of both sides and the machine, and the time.

What was done before is not believed, it is looked at; every step may be made twice. The marks in ``began`` only say that
something was done to its end, where a look cannot tell: without its mark it is done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.ports import Sight, Verdict
from tidepool.conversion.record import (
    CANCELLABLE,
    DEADLINES,
    SECOND_TRY_S,
    Conversion,
    Phase,
    Work,
    counted_from,
    deadline,
    returns_by_image,
    uses_force,
)

_NOTHING: Final[FrozenDict[Any, Any]] = FrozenDict()
_FREE: Final = Verdict()
_MOST_NAMED: Final = 3

Verb = Literal[
    "hold",
    "release",
    "ask_to_leave",
    "force_out",
    "prepare",
    "admit",
    "remove_node",
    "take",
    "lose",
    "hand_over",
    "image",
]
#: How people call the roles.
SAID: Final[Mapping[Role, str]] = FrozenDict({"slurm": "Slurm", "kubernetes": "Kubernetes"})


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at what the next step needs, in this order. What is not asked for may be missing in `Observed`."""

    roles: bool = False
    sights: tuple[Role, ...] = ()
    #: Of this side, after its sight: what runs there.
    work: Role | None = None
    #: Whether the machine runs a part of a control plane, and may go.
    control: bool = False
    #: Of which roles' image its disk is.
    imaged: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of just now, as far as `looks` asked for them."""

    roles: frozenset[Role] = frozenset()
    #: Roles whose image it has; None where that is not known.
    imaged: frozenset[Role] | None = None
    #: Whether it can be made anew, whatever it has.
    can_image: bool = False
    sights: Mapping[Role, Sight] = field(default_factory=lambda: _NOTHING)
    #: Who else holds the machine back, on the sides that see it ``held``.
    held_by: Mapping[Role, str] = field(default_factory=lambda: _NOTHING)
    work: tuple[Work, ...] = ()
    #: This process has prepared the side that is joined, since the machine last took the role.
    prepared: bool = False
    #: What it runs of a control plane.
    control: Verdict = _FREE
    #: Who could not be asked, and what was said: then nothing of it is known.
    unknown: Mapping[Role | Literal["machine"], str] = field(default_factory=lambda: _NOTHING)
    #: Who could be asked and, the last time, could not do what it was asked.
    failing: Mapping[Role | Literal["machine"], str] = field(default_factory=lambda: _NOTHING)
    #: Somebody said that it will not be, ever.
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """Do it to the side of ``role``, or to the machine; then look again: at once, or when ``text`` may have changed.

    With a ``mark``, ``<phase>/<mark>`` is written when it is done.
    """

    verb: Verb
    role: Role
    mark: str = ""
    waits: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Enter:
    """Begin the next phase, or end."""

    phase: Phase
    text: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Write ``<phase>/<mark>`` before anything is done, and what runs there, so that nothing goes unrecorded."""

    mark: str


@dataclass(frozen=True, slots=True)
class Wait:
    """There is nothing to do but to look again."""

    text: str


Step = Act | Enter | Mark | Wait


def other(role: Role) -> Role:
    """The role that a machine with ``role`` has not."""
    return "kubernetes" if role == "slurm" else "slurm"


def what_holds(work: Iterable[Work]) -> str:
    """Say what is waited for: the first few, and how many there are."""
    there = list(work)
    named = [
        f"{each.title}{f' of {each.owner}' if each.owner else ''}{f' ({each.text})' if each.text else ''}"
        for each in there[:_MOST_NAMED]
    ]
    more = len(there) - len(named)
    return "waits for " + ", ".join(named) + (f" and {more} more" if more else "")


def looks(conversion: Conversion) -> Looks:
    """Return the observations that `next_step` needs in this phase."""
    to = conversion.order.to
    away = other(to)
    match conversion.phase:
        case "asked":
            return Looks(roles=True, sights=(away, to), imaged=True)
        case "holding":
            return Looks(sights=(away,), control=True)
        case "emptying":
            return Looks(sights=(away,), work=away, control=True)
        case "leaving":
            return Looks(roles=True, sights=(away,), work=away, imaged=True)
        case "imaging":
            # Until it has been started with its new disk there is nobody to ask.
            return Looks(roles="imaging/imaged" in conversion.began)
        case "joining":
            return Looks(roles=True, sights=(to,))
        case "restoring" if "leaving" not in conversion.began:
            return Looks(sights=(away,))
        case "restoring":
            has_image = not returns_by_image(conversion) or "restoring/imaged" in conversion.began
            # One that was never up with the other image says nothing, and is not asked.
            return Looks(roles=has_image or "joining" in conversion.began, sights=(away, to), work=to)
        case _:
            return Looks()


def next_step(conversion: Conversion, seen: Observed, now: datetime) -> Step:
    """The next step of a conversion that has not ended. A phase that is complete is over, late or not."""
    phase = conversion.phase
    if conversion.cancel_by and phase in CANCELLABLE:
        return Enter(_back(phase), f"cancelled by {conversion.cancel_by}")
    if seen.refused and phase != "restoring":
        return Enter(_back(phase), seen.refused)
    if phase == "emptying" and "emptying/forced" not in conversion.began and uses_force(conversion, now):
        return Mark("forced")
    step: Step
    if seen.unknown and phase != "restoring" and not _is_unheard(conversion, seen):
        step = Wait("; ".join(seen.unknown.values()))
    else:
        step = _PHASES[phase](conversion, seen)
    if _begins_again(conversion, seen, step, now):
        step = Act("lose", conversion.order.to, mark="again")
    until = deadline(conversion)
    if isinstance(step, Enter) or until is None or now < until:
        return step
    return _late(conversion, seen, until)


def _is_unheard(conversion: Conversion, seen: Observed) -> bool:
    """Return whether it does not answer, no side knows it, and it can be made anew: nothing is lost by that."""
    return (
        conversion.phase in ("asked", "leaving")
        and seen.unknown.keys() == {"machine"}
        and seen.can_image
        and all(sight == "absent" for sight in seen.sights.values())
    )


def _back(phase: Phase) -> Phase:
    """In ``asked``, nothing was done yet."""
    return "stopped" if phase == "asked" else "restoring"


def _after_order(conversion: Conversion, seen: Observed) -> Step:
    order = conversion.order
    to, away = order.to, other(order.to)
    if seen.roles == {to} and seen.sights[away] == "absent" and seen.sights[to] == "serving":
        if "asked/forgotten" not in conversion.began:
            # An earlier one may have gone back without the side that did not answer.
            return Act("remove_node", away, mark="forgotten")
        return Enter("done", f"it serves {SAID[to]} already")
    holder = seen.held_by.get(away, "")
    if holder and order.by != "person":
        return Enter(
            "stopped",
            f"it is held back in {SAID[away]} by {holder}; such a machine moves by a person's order only: "
            f"`tidepool convert {order.node} --to {to}`",
        )
    return Enter("holding", f"it was held back in {SAID[away]} by {holder}, which ends now" if holder else "")


def _holding(conversion: Conversion, seen: Observed) -> Step:
    away = other(conversion.order.to)
    if seen.control.keeps and not seen.control.hands_over:
        return Enter("restoring", seen.control.keeps)
    sight, was_held = seen.sights[away], "holding/held" in conversion.began
    if sight == "absent" or sight == "held" or (sight == "joining" and was_held):
        return Enter("emptying")
    return Act("hold", away, mark="held", waits=was_held, text=f"{SAID[away]} still gives it new work")


def _emptying(conversion: Conversion, seen: Observed) -> Step:
    away = other(conversion.order.to)
    if seen.sights[away] == "serving":
        # Somebody let it go on meanwhile.
        return Act("hold", away, waits=True, text=f"{SAID[away]} gives it new work")
    if seen.work:
        if "emptying/forced" in conversion.began:
            return Act("force_out", away, waits=True, text=what_holds(seen.work))
        return Act("ask_to_leave", away, waits=True, text=what_holds(seen.work))
    if seen.control.hands_over:
        return Act("hand_over", away, mark="handed_over", waits=True, text=seen.control.keeps)
    return Wait(seen.control.keeps) if seen.control.keeps else Enter("leaving")


def _leaving(conversion: Conversion, seen: Observed) -> Step:
    to = conversion.order.to
    if "machine" in seen.unknown:  # it is unheard
        return Enter("imaging")
    if (ending := _ending(conversion, other(to), seen)) is not None:
        return ending
    return Enter("joining" if to in (seen.imaged or ()) else "imaging")


def _imaging(conversion: Conversion, _seen: Observed) -> Step:
    if "imaging/imaged" not in conversion.began:
        return Act("image", conversion.order.to, mark="imaged")
    return Enter("joining")


def _joining(conversion: Conversion, seen: Observed) -> Step:
    to = conversion.order.to
    if other(to) in seen.roles:
        # A fault: what should be lost goes first.
        return Act("lose", other(to), mark="lost", waits="joining/lost" in conversion.began)
    if _is_forgotten(conversion, seen):
        return Act("lose", to, mark="anew")
    step = _beginning(conversion, to, seen) or Enter("done", _held(seen, to))
    if isinstance(step, Act) and step.verb == "admit" and "joining/admitted" not in conversion.began:
        return Mark("admitted")
    return step


def _is_forgotten(conversion: Conversion, seen: Observed) -> bool:
    """Return whether it had the role before, and its side does not know it any more: its services run, unheard.

    slurmctld forgets the last seconds before a `kill -9`, and somebody may have deleted a Node.
    """
    to, began = conversion.order.to, conversion.began
    return (
        to in seen.roles
        and seen.sights[to] == "absent"
        and not {"joining/taken", "joining/anew"} & began.keys()
    )


def _begins_again(conversion: Conversion, seen: Observed, step: Step, now: datetime) -> bool:
    """Return whether it is time for a second try: its services run, and the side has never heard of it."""
    began = counted_from(conversion) or now
    taken = max(began, conversion.began.get("joining/taken", began))
    # One that was slow to take its role is slow to be heard of, and a second try would end what is nearly there.
    patience_s = max(SECOND_TRY_S, 2 * (taken - began).total_seconds())
    return (
        conversion.phase == "joining"
        and isinstance(step, Act)
        and step.verb == "admit"
        and seen.sights[step.role] == "absent"
        and "joining/again" not in conversion.began
        and (now - taken).total_seconds() > patience_s
    )


def _restoring(conversion: Conversion, seen: Observed) -> Step:
    to, goal = conversion.order.to, conversion.leaves
    if "leaving" not in conversion.began:
        return _released(conversion, seen)
    if returns_by_image(conversion) and (before := _before_image(conversion, seen)) is not None:
        return before
    if "machine" in seen.unknown:
        return Wait(seen.unknown["machine"])
    if _came_late(conversion, seen):
        return Enter("done", f"it came late: {conversion.back_because}")
    if goal == to:
        return Enter("failed", conversion.back_because)
    if to in seen.unknown and to in seen.roles and _may_serve_unseen(conversion):
        return Wait(seen.unknown[to])
    ending = _ending(conversion, to, seen) if "joining" in conversion.began else None
    if isinstance(ending, Wait) and seen.refused:
        ending = None
    if ending is not None and not _can_wait(ending, to, seen):
        return ending
    if goal is not None:
        if goal in seen.unknown:
            return Wait(seen.unknown[goal])
        if (begun := _beginning(conversion, goal, seen)) is not None:
            return begun
    if ending is not None:
        return ending
    if goal is None:
        return Enter("failed", conversion.back_because)
    return Enter("stopped", "; ".join(filter(None, (conversion.back_because, _held(seen, goal)))))


def _before_image(conversion: Conversion, seen: Observed) -> Step | None:
    """Return the next step until the machine has been given the image again that it had; None: it has, or serves after all.

    It need not answer for that. What it was given with the new role is shredded where it does.
    """
    to, goal, began = conversion.order.to, conversion.leaves, conversion.began
    if goal is None or "restoring/imaged" in began or _came_late(conversion, seen):
        return None
    if "joining" in began and "restoring/lost" not in began:
        if to in seen.unknown and _may_serve_unseen(conversion):
            return Wait(seen.unknown[to])
        ending = _ending(conversion, to, seen)
        loses = isinstance(ending, Act) and ending.verb == "lose"
        if ending is not None and not (loses and {"machine"} & (seen.unknown.keys() | seen.failing.keys())):
            return ending
    if seen.work:
        return Act("force_out", to, waits=True, text=what_holds(seen.work))
    return Act("image", goal, mark="imaged")


def _may_serve_unseen(conversion: Conversion) -> bool:
    """Return whether the joined side may have given it work since it was last asked: then its owners have to be told.

    slurmd registers by itself; a kubelet is let in by us.
    """
    return conversion.order.to == "slurm" or "joining/admitted" in conversion.began


def _can_wait(step: Step, to: Role, seen: Observed) -> bool:
    """Return whether the step may come after the machine's own: it needs the side that was to be joined, which may not answer."""
    return isinstance(step, Wait) or (
        isinstance(step, Act) and step.verb == "remove_node" and to in seen.failing
    )


def _released(conversion: Conversion, seen: Observed) -> Step:
    """Before the point of no return there is nothing to restore but the hold; what the machine is besides, it was."""
    away = other(conversion.order.to)
    if away in seen.unknown:
        return Wait(seen.unknown[away])
    was_released = "restoring/released" in conversion.began
    if "emptying/handed_over" in conversion.began and "restoring/taken" not in conversion.began:
        # What ended as another took over is started again.
        return Act("take", away, mark="taken")
    if not was_released or (seen.sights[away] == "held" and not seen.held_by.get(away)):
        return Act(
            "release", away, mark="released", waits=was_released, text=f"{SAID[away]} still holds it back"
        )
    return Enter("stopped", conversion.back_because)


def _came_late(conversion: Conversion, seen: Observed) -> bool:
    """It serves after all, and nothing was taken back yet."""
    to = conversion.order.to
    return (
        "joining" in conversion.began
        and seen.roles == {to}
        and seen.sights.get(to) == "serving"
        and not any(mark.startswith("restoring/") for mark in conversion.began)
    )


def _ending(conversion: Conversion, role: Role, seen: Observed) -> Step | None:
    """Return the next step for ``role`` to be gone from the machine and from its side; None: it is.

    Nothing new comes first, and what the side believes to run there is taken away by name, so that its owners are told:
    before the machine loses the role, where something came after all, and before the side forgets it.
    """
    phase, sight = conversion.phase, seen.sights.get(role)
    is_gone = {f"{phase}/lost", f"{phase}/imaged"} & conversion.began.keys()
    is_lost = bool(is_gone) and role not in seen.roles
    if not is_lost and (sight == "serving" or (sight == "joining" and not _is_barred(conversion))):
        again = f"{phase}/barred" in conversion.began
        return Act("hold", role, mark="barred", waits=again, text=f"{SAID[role]} gives it new work")
    if seen.work:
        return Act("force_out", role, waits=True, text=what_holds(seen.work))
    if not is_lost:
        again = f"{phase}/lost" in conversion.began
        return Act("lose", role, mark="lost", waits=again, text=f"what it was in {SAID[role]} still runs")
    if sight is None:
        return Wait(seen.unknown.get(role, ""))
    was_forgotten = f"{phase}/forgotten" in conversion.began
    if sight != "absent" or not was_forgotten:
        return Act(
            "remove_node", role, mark="forgotten", waits=was_forgotten, text=f"{SAID[role]} still knows it"
        )
    return None


def _is_barred(conversion: Conversion) -> bool:
    """Return whether new work is held off: what left was held before; what is taken back was not."""
    return conversion.phase == "leaving" or f"{conversion.phase}/barred" in conversion.began


def _beginning(conversion: Conversion, role: Role, seen: Observed) -> Step | None:
    """Return the next step for the machine to serve ``role``, or to be held back by somebody else; None: it does."""
    was_taken = f"{conversion.phase}/taken" in conversion.began
    if role not in seen.roles or not was_taken:
        if not seen.prepared:
            return Act("prepare", role, mark="prepared")
        return Act("take", role, mark="taken", waits=was_taken, text=f"it does not keep the role {role}")
    if seen.sights[role] == "serving" or _held(seen, role):
        return None
    return Act("admit", role, waits=True, text=f"{SAID[role]} does not see it serve yet")


def _held(seen: Observed, role: Role) -> str:
    """Say who else holds it back where it came: then it is there, as far as it is ours to say."""
    holder = seen.held_by.get(role, "") if seen.sights.get(role) == "held" else ""
    return f"it is held back in {SAID[role]} by {holder}" if holder else ""


def _late(conversion: Conversion, seen: Observed, until: datetime) -> Step:
    """The deadline's edge: which one passed, and over what."""
    phase, to = conversion.phase, conversion.order.to
    said = [*seen.unknown.values(), *seen.failing.values()]
    over = what_holds(seen.work) if seen.work else "; ".join(said) or conversion.text
    if phase == "restoring":
        goal = conversion.leaves
        # It is what it was; only the other side could not be asked to forget it.
        is_back = goal is not None and seen.roles == {goal} and seen.sights.get(goal) == "serving"
        rest = f"{conversion.back_because}; then it could not be made what it was: {over}"
        if is_back:
            rest = f"{conversion.back_because}; {SAID[to]} could not be made to forget it: {over}"
        return Enter("stopped" if is_back else DEADLINES[phase][1], rest)
    what = {
        "asked": "nothing was done",
        "holding": f"{SAID[other(to)]} did not hold it back",
        "emptying": "its work did not end",
        "leaving": f"it did not leave {SAID[other(to)]}",
        "imaging": f"it did not come up with the image of {SAID[to]}",
        "joining": f"it did not join {SAID[to]}",
    }[phase]
    since = counted_from(conversion) or until
    return Enter(DEADLINES[phase][1], f"{what} within {(until - since).total_seconds():.0f} s: {over}")


_PHASES: Final = {
    "asked": _after_order,
    "holding": _holding,
    "emptying": _emptying,
    "leaving": _leaving,
    "imaging": _imaging,
    "joining": _joining,
    "restoring": _restoring,
}
