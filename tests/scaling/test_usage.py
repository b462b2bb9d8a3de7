"""What jobs had of nodes, and what is made of it in a report: all parts add up."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import runs
from tidepool.clients.slurm.usage import JobTime
from tidepool.cluster.accounts import Account
from tidepool.cluster.shape import Shape
from tidepool.scaling.memory import MachineTime
from tidepool.scaling.report import Month, Rule, fair_shares, rows, split, summed, total
from tidepool.scaling.usage import (
    SECOND_US,
    AccountUsage,
    Use,
    clipped,
    counted,
    goes_on,
    spans,
    uncounted,
    used,
)

SHAPES = {
    "cpu": Shape(cpus=4, memory_mib=1000),
    "gpu": Shape.model_validate(
        {"cpus": 4, "memory": 1000, "gres": [{"name": "gpu", "count": 2, "files": "/dev/nvidia[0-1]"}]}
    ),
}
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
ACCOUNTS = (
    Account.model_validate({"name": "physics", "shares": 3}),
    Account.model_validate(
        {"name": "optics", "parent": "physics", "users": ["ada", {"name": "grace", "shares": 2}]}
    ),
    Account.model_validate({"name": "biology", "users": ["ada"]}),
)


def had(
    account: str = "optics",
    nodes: str = "cpu-1",
    begin: int = 0,
    end: int = 10,
    cpus: int = 1,
    mib: int = 0,
    **gres: int,
) -> JobTime:
    return JobTime(account, "ada", nodes, begin, end, end - begin, cpus, mib, gres)


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([had(cpus=1)], 2.5),
        ([had(cpus=1, mib=1000)], 10),  # nobody else could have memory
        ([had(nodes="gpu-1", cpus=1, gpu=2)], 10),
        ([had(nodes="cpu-[1-2]", cpus=2)], 5),  # a quarter of each
        ([had(nodes="gone-1")], 10),
        # What they take is more than a node while both are there, which they share.
        ([had(cpus=4), had("biology", cpus=4, begin=5, end=15)], 15),
    ],
)
def test_a_job_has_the_part_of_a_machine_that_it_takes(times: list[JobTime], seconds: float) -> None:
    assert sum(use.machine_us for use in used(times, SHAPES).values()) == seconds * SECOND_US


def test_processors_of_a_job_on_several_fleets_are_shared_out_by_nodes() -> None:
    found = used([had(nodes="cpu-[1-2],gpu-1", cpus=7)], SHAPES)
    assert {key[2]: use[:2] for key, use in found.items()} == {"cpu": (20, 40), "gpu": (10, 30)}


@st.composite
def times(draw: st.DrawFn) -> list[JobTime]:
    def one() -> JobTime:
        begin = draw(st.integers(0, 50_000))
        name = draw(st.sampled_from(["cpu-1", "cpu-2", "cpu-[1-2]", "gpu-1", "cpu-1,gpu-1"]))
        account = draw(st.sampled_from(["optics", "biology"]))
        return had(
            account,
            name,
            begin,
            begin + draw(st.integers(1, 20_000)),
            draw(st.integers(1, 8)),
            draw(st.integers(0, 2000)),
        )

    return [one() for _ in range(draw(st.integers(0, 12)))]


@given(times())
@runs()
def test_jobs_never_have_more_of_a_machine_than_its_time(jobs: list[JobTime]) -> None:
    found = used(jobs, SHAPES)
    for fleet, nodes in (("cpu", 2), ("gpu", 1)):
        own_us = sum(use.machine_us for key, use in found.items() if key[2] == fleet)
        assert own_us <= nodes * 70_000 * SECOND_US
    assert sum(use.node_s for use in found.values()) == sum(
        job.elapsed_s * {"cpu-[1-2]": 2, "cpu-1,gpu-1": 2}.get(job.nodes, 1) for job in jobs
    )
    assert sum(use.cpu_s for use in found.values()) == sum(job.elapsed_s * job.cpus for job in jobs)


@given(
    times(), st.lists(st.integers(0, 500_000), min_size=1, max_size=6).map(sorted), st.integers(2700, 86_400)
)
@runs()
def test_counting_on_in_spans_gives_what_counting_all_gives(
    jobs: list[JobTime], looks: list[int], span_s: int
) -> None:
    begin = int(BEGIN.timestamp())
    there = [job._replace(begin=job.begin + begin, end=job.end + begin) for job in jobs]
    asked: list[int] = []

    def ask(first: int, last: int) -> Iterable[JobTime]:
        asked.append(last - first)
        return clipped(there, first, last)

    known: AccountUsage | None = None
    for at_s in looks:
        at = BEGIN + timedelta(seconds=at_s)
        usage = known if known and goes_on(known, at) else uncounted(at)
        while usage.until < at:
            usage = counted(usage, at, ask, SHAPES, timedelta(seconds=span_s))
        known = usage
    assert known is not None
    # The last hour goes with what is before it.
    assert max(asked, default=0) <= span_s + 3600
    found: dict[tuple[str, str], Use] = {}
    for (account, _, fleet), use in used(clipped(there, begin, begin + looks[-1]), SHAPES).items():
        found[account, fleet] = found.get((account, fleet), Use()).plus(use)
    counts = {(account, fleet): use for account, of in known.accounts.items() for fleet, use in of.items()}
    assert counts.keys() == found.keys()
    for key, use in found.items():
        assert counts[key][:2] == use[:2]
        # A microsecond may be lost where a span was cut.
        assert abs(counts[key].machine_us - use.machine_us) <= 2 * len(jobs) * (len(asked) + 1)


def test_a_new_month_begins_with_nothing() -> None:
    at = BEGIN + timedelta(hours=1)
    known = counted(uncounted(at), at, lambda first, last: [had(begin=first, end=last)], SHAPES)
    assert known.accounts["optics"]["cpu"].node_s == 3600
    december = datetime(2026, 12, 1, 0, 1, tzinfo=UTC)
    assert not goes_on(known, december)
    assert uncounted(december).month == "2026-12"


def test_a_time_is_split_into_days() -> None:
    whole = [*spans(BEGIN, BEGIN + timedelta(days=2, hours=3))]
    assert [until - begin for begin, until in whole] == [timedelta(days=1)] * 2 + [timedelta(hours=3)]
    assert whole[0][0] == BEGIN
    assert all(before[1] == after[0] for before, after in itertools.pairwise(whole))


# The report


@given(
    times(),
    st.dictionaries(
        st.sampled_from(["", "cpu@aws", "cpu@local", "gpu"]), st.tuples(st.floats(0, 1e6), st.floats(0, 1e4))
    ),
    st.sampled_from(["use", "shares", "none"]),
)
@runs()
def test_all_parts_add_up_to_what_the_journal_counted(
    jobs: list[JobTime], machines: dict[str, tuple[float, float]], rule: Rule
) -> None:
    uses = used(jobs, SHAPES)
    counts = {where: MachineTime(*time) for where, time in machines.items()}
    found = rows(Month("2026-11", uses, uses, counts), rule, ACCOUNTS)
    all_of_it = total(found)
    counted_fleets = {where.partition("@")[0] for where in machines}
    uncounted = sum(use.machine_us for key, use in uses.items() if key[2] not in counted_fleets)
    assert all_of_it.machine_us + all_of_it.idle_us == uncounted + sum(
        round(time.seconds * SECOND_US) for time in counts.values()
    )
    assert all_of_it.micro_usd + all_of_it.idle_micro_usd == sum(
        round(time.usd * 1e6) for time in counts.values()
    )
    assert all_of_it.machine_us == sum(use.machine_us for use in uses.values())
    for by in ("account", "user", "fleet", "month"):
        assert total(summed(found, by)) == all_of_it


def test_idle_time_is_borne_as_it_is_said() -> None:
    uses = {
        ("optics", "ada", "cpu"): Use(30, 30, 30 * SECOND_US),
        ("biology", "ada", "cpu"): Use(10, 10, 10 * SECOND_US),
    }
    month = Month("2026-11", uses, uses, {"cpu": MachineTime(80, 0.8), "": MachineTime(40, 0.4)})

    def idle(rule: Rule) -> dict[str, int]:
        return {
            row.account: row.idle_us // SECOND_US
            for row in summed(rows(month, rule, ACCOUNTS), "account")
            if row.idle_us
        }

    assert idle("use") == {"optics": 60, "biology": 20}
    assert idle("shares") == {"optics": 60, "biology": 20}
    assert idle("none") == {"": 80}
    assert summed(rows(month, "none", ()), "account")[-1].micro_usd == 300_000


def test_shares_are_parts_of_the_whole() -> None:
    found = fair_shares(ACCOUNTS)
    assert {key: float(part) for key, part in found.items()} == {
        ("optics", "ada"): 0.25,
        ("optics", "grace"): 0.5,
        ("biology", "ada"): 0.25,
    }


@given(st.integers(-(10**9), 10**9), st.dictionaries(st.text(max_size=2), st.integers(1, 100), min_size=1))
@runs()
def test_what_is_split_adds_up(amount: int, weights: dict[str, int]) -> None:
    parts = split(amount, weights)
    assert sum(parts.values()) == amount
    whole = Counter(weights).total()
    assert all(abs(parts[key] - amount * weight / whole) <= 1 for key, weight in weights.items())
