"""Random orders, cancels, force, faults of both sides and of the machine, and drivers killed at any call.

At every moment: never two roles, never two sides that give work, nothing lost untold. At the end: within the sum of the
deadlines, what it was before or what was ordered, and nothing left behind.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given

from tests.conversion.site import NODE, Site
from tests.properties import chances, comes, runs
from tidepool.clients.slurm import NodeFlag
from tidepool.cluster.roles import ROLES, Role
from tidepool.conversion.ports import ConversionError
from tidepool.conversion.record import Conversion, longest_s

pytestmark = pytest.mark.slow

#: What the calls under way when a deadline passes may take, and waits between two looks, for each killed driver too.
SLACK_S = 60.0


def _ask(site: Site, act: Callable[..., object]) -> None:
    try:
        act(NODE, "anna")
    except ConversionError:
        return


def _drain(site: Site, on: bool) -> None:
    node = site.slurm.look(NODE)
    if node is None or node.state.is_slot:
        return
    if on:
        site.slurm.drain_by("root", NODE, "bad disk")
    else:
        site.slurm.flag(NODE, NodeFlag.DRAIN, on=False)


def _cordon(site: Site, on: bool) -> None:
    if (node := site.kubernetes._nodes.get(NODE)) is not None:
        site.kubernetes.alter_node(NODE, unschedulable=on, reason=node.reason if on else "")


def _kubelet_restarts(site: Site) -> None:
    kubelet = site.kubernetes._kubelets.get(NODE)
    if kubelet is not None:
        site.kubernetes.stop_kubelet(NODE)
        site.kubernetes.start_kubelet(
            NODE, kubelet.token, labels=kubelet.labels, has_certificate=kubelet.has_certificate
        )


def _slurmd_restarts(site: Site) -> None:
    """Jobs go on beside a slurmd that is started again."""
    if "slurm" in site.machine.running and site.machine.registers is None:
        site.slurm.unplug(NODE)
        site.slurm.replug(NODE)


def _set(name: str, value: str) -> Callable[[Site], None]:
    def happen(site: Site) -> None:
        side, _, field = name.partition(".")
        setattr(getattr(site, side), field, value)

    return happen


def _fault(what: str) -> Callable[[Site], None]:
    return lambda site: site.machine.faults.symmetric_difference_update({what})


def _kill(site: Site) -> None:
    site.killed = True


EVENTS: dict[str, Callable[[Site], None]] = {
    "the driver is killed": _kill,
    "it is killed": _kill,
    "somebody cancels": lambda site: _ask(site, site.journal.cancel),
    "somebody forces": lambda site: _ask(site, site.journal.force),
    "slurmctld goes": _set("slurm.controller", "down"),
    "slurmctld hangs": _set("slurm.controller", "hanging"),
    "slurmctld is back": _set("slurm.controller", "up"),
    "slurmctld is up": _set("slurm.controller", "up"),
    "the API goes": _set("kubernetes.api", "down"),
    "the API is back": _set("kubernetes.api", "up"),
    "the API is up": _set("kubernetes.api", "up"),
    "an answer is lost": lambda site: site.kubernetes.lose_answer(),
    "slurmd restarts": _slurmd_restarts,
    "the kubelet restarts": _kubelet_restarts,
    "a job comes": lambda site: site.job(20, requeue=True),
    "a long job comes": lambda site: site.job(5000, requeue=True),
    "a job comes that cannot be requeued": lambda site: site.job(300, requeue=False),
    "a pod comes": lambda site: site.pod(f"web-{len(site.pods)}", owner="ReplicaSet/web", is_remade=True),
    "a bare pod comes": lambda site: site.pod(f"bare-{site.time.timestamp()}", run_s=90, grace_s=5),
    "a budget comes": lambda site: site.kubernetes.add_budget("web", {}, 1),
    "somebody drains": lambda site: _drain(site, True),
    "somebody resumes": lambda site: _drain(site, False),
    "somebody cordons": lambda site: _cordon(site, True),
    "somebody uncordons": lambda site: _cordon(site, False),
    "the machine takes nothing": _fault("take kubernetes"),
    "the machine takes no slurmd": _fault("take slurm"),
    "the machine is given no image of Slurm": _fault("image slurm"),
    "the machine is given no image of Kubernetes": _fault("image kubernetes"),
    "the image of Kubernetes does not boot": lambda site: site.machine.unbootable.add("kubernetes"),
    "no image boots": lambda site: site.machine.unbootable.update(ROLES),
    "the machine loses nothing": _fault("lose slurm"),
    "the machine loses no kubelet": _fault("lose kubernetes"),
}

#: What leads to what seldom comes to pass: cancels before anything is lost, and machines that cannot be changed.
_LIKELY = {
    "somebody cancels": 4,
    "the machine takes nothing": 4,
    "the machine takes no slurmd": 4,
    "the machine loses nothing": 2,
    "the machine loses no kubelet": 2,
}
_HAPPENINGS = [name for name in sorted(EVENTS) for _ in range(_LIKELY.get(name, 1))]

Round = tuple[dict[str, Any], list[tuple[int, str]]]
"""What is ordered, and what happens meanwhile: each after so many moments."""


def _a_round(chance: Random) -> Round:
    order = {
        "moves": chance.randrange(10) > 0,
        "is_forced": chance.random() < 0.5,
        "deadline_s": chance.choice([5.0, 40.0]),
        "at_deadline": chance.choice(["stop", "force"]),
        "by": chance.choice(["person", "scaler"]),
    }
    events = [(chance.randint(1, 60), chance.choice(_HAPPENINGS)) for _ in range(chance.randint(0, 10))]
    return order, events


def _rounds(chance: Random) -> tuple[bool, list[Round]]:
    """Whether the roles have an image each, and the rounds."""
    return chance.random() < 0.4, [_a_round(chance) for _ in range(chance.randint(1, 4))]


def _happen(site: Site, events: Sequence[tuple[int, str]]) -> None:
    """Each some moments after the one before."""
    waiting = list(events)
    count = [0]

    def at() -> None:
        count[0] += 1
        while waiting and count[0] >= waiting[0][0]:
            count[0] = 0
            EVENTS[waiting.pop(0)[1]](site)

    site.happenings = at


def _healed(site: Site) -> None:
    site.happenings = lambda: None
    site.slurm.controller = "up"
    site.kubernetes.api = "up"
    site.kubernetes._is_answer_lost = False
    site.machine.faults.clear()
    site.machine.unbootable.clear()
    site.machine.up = min(site.machine.up, site.time)


def _try(
    site: Site, order: dict[str, Any], events: Sequence[tuple[int, str]]
) -> tuple[Conversion, frozenset[Role]]:
    before = site.machine.roles_now()
    was_clean = not site.leftovers() and len(before) == 1
    is_in_slurm = "slurm" in before
    to: Role = "kubernetes" if is_in_slurm == order["moves"] else "slurm"
    conversion = site.order(to, **{key: value for key, value in order.items() if key != "moves"})
    _happen(site, events)
    began = site.time
    ended = site.drive_through(conversion)
    took = (site.time - began).total_seconds()
    longest = longest_s(conversion.order, by_image=site.machine.disk is not None)
    assert took <= longest + SLACK_S, f"it took {took:.0f} s: {ended.text}"
    after = site.machine.roles_now()
    match ended.phase:
        case "done":
            assert after == {to}
            assert not site.leftovers()
        case "stopped":
            assert after == before or not was_clean, f"it was {before}, and is {after}: {ended.text}"
        case _:
            assert ended.phase == "failed"
            assert ended.text
    if ended.cancel_by and ended.phase == "stopped" and "leaving" not in ended.began:
        assert not {call for call in ended.began if call.startswith(("leaving", "joining"))}
    return ended, before


def _outcomes(ended: Conversion, before: frozenset[Role]) -> Iterator[str]:
    """What an order came to, in words that are counted."""
    yield "moved" if ended.order.to not in before else "stayed"
    yield from {name.partition("/")[0] for name in ended.began} | {ended.phase}
    if ended.cancel_by:
        yield "cancelled"
    if "emptying/forced" in ended.began:
        yield "forced"
    if ended.phase == "stopped" and "leaving" in ended.began:
        yield "back"
    if "cannot be reached to take" in ended.text + ended.back_because:
        yield "untaken"


@comes(
    moved=90,
    leaving=50,
    imaging=15,
    joining=30,
    forced=40,
    cancelled=20,
    back=15,
    done=30,
    stopped=50,
    failed=15,
    untaken=15,
)
@given(chances().map(_rounds))
@runs(75)
def test_whatever_happens_nothing_is_lost_and_the_next_order_mends(
    came: Counter[str], drawn: tuple[bool, list[Round]]
) -> None:
    by_image, rounds = drawn
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        site.machine.disk = "slurm" if by_image else None
        site.drive(site.order("slurm"))
        site.job(30, requeue=True)
        site.pod("web-0", owner="ReplicaSet/web", is_remade=True)
        for order, events in rounds:
            came.update(_outcomes(*_try(site, order, events)))
        _healed(site)
        _drain(site, False)
        _cordon(site, False)
        for to in ROLES:
            ended = site.drive(site.order(to, is_forced=True))
            assert ended.phase == "done", ended.text
            assert site.machine.roles_now() == {to}
            assert not site.leftovers()
        site.time += timedelta(seconds=5)
        site.check()
        site.check_records()
        site.journal.close()


def test_what_was_evicted_is_told_so_where_the_conversion_is_given_up_before_it_has_ended(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    assert site.drive(site.order("kubernetes")).phase == "done"
    site.pod("alone", run_s=5000, grace_s=600)
    site.pod("web-0", owner="ReplicaSet/web", labels={"app": "web"})
    site.kubernetes.add_budget("web", {"app": "web"}, 1)
    site.time += timedelta(seconds=5)
    site.moment()
    ended = site.drive(site.order("slurm", deadline_s=5.0, at_deadline="stop"))
    assert ended.phase == "stopped", ended.text
    assert {work.name: work.fate for work in ended.work} == {
        "default/alone": "evicted",
        "default/web-0": "runs",
    }
    site.check_records()
    site.journal.close()
