"""A campaign's order: all of it once, and few moves of machines."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from tests.lab.test_drive import LABORATORY
from tidepool.lab.campaign import Campaign, Trial

NAMES = ("slurm", "kubernetes", "volcano", "flux")


@st.composite
def campaigns(draw: st.DrawFn) -> Campaign:
    schedulers = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)))
    roles = draw(st.tuples(*(st.sampled_from(("a", "b", "c")) for _ in schedulers)) | st.just(()))
    return Campaign(
        "c", schedulers, ("bag", "gang"), draw(st.integers(1, 4)), draw(st.integers(0, 99)), roles
    )


def role(campaign: Campaign, trial: Trial) -> str:
    return campaign.roles[campaign.schedulers.index(trial.scheduler)] if campaign.roles else ""


@given(campaigns())
def test_each_pair_is_measured_once_in_each_block_after_the_warm_ups(campaign: Campaign) -> None:
    trials = [*campaign.trials()]
    warm_ups, measured = trials[: len(campaign.schedulers)], trials[len(campaign.schedulers) :]
    assert {each.scheduler for each in warm_ups} == {*campaign.schedulers}
    assert all(each.is_warm_up for each in warm_ups)
    assert [each.repeat for each in measured] == sorted(each.repeat for each in measured)
    pairs = Counter((each.scheduler, each.workload) for each in measured)
    assert pairs == {
        (one, other): campaign.repeats for one in campaign.schedulers for other in campaign.workloads
    }
    assert len({*measured}) == len(measured)


@given(campaigns())
def test_machines_have_a_role_once_in_a_block(campaign: Campaign) -> None:
    last = ""
    for number, block in groupby(campaign.trials(), lambda trial: trial.repeat):
        moves = [each for each, _ in groupby(block, lambda trial: role(campaign, trial))]
        assert len(moves) == len({*moves}), f"block {number}"
        assert last in ("", moves[0]), f"machines move before block {number}"
        last = moves[-1]


def test_two_roles_come_first_in_turns() -> None:
    campaign = Campaign("c", ("slurm", "kubernetes"), ("bag",), 4, 1, ("slurm", "kubernetes"))
    firsts = [trial.scheduler for trial in campaign.trials() if trial.repeat][::2]
    assert firsts == ["kubernetes", "slurm", "kubernetes", "slurm"]


def test_the_order_of_roles_and_within_a_role_is_another_in_other_blocks() -> None:
    campaign = Campaign("c", NAMES, ("bag",), 40, 1, ("slurm", "kubernetes", "kubernetes", "slurm"))
    orders = {
        tuple(each.scheduler for each in block)
        for number, block in groupby(campaign.trials(), lambda trial: trial.repeat)
        if number
    }
    # Two orders of roles, and two of the schedulers of each.
    assert len(orders) == 8


def test_a_laboratory_says_which_schedulers_have_a_role_together() -> None:
    assert LABORATORY.campaign("c").roles == ("slurm", "kubernetes")
