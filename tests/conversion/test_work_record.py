"""What a record keeps of the work on a machine, from one look to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tidepool.conversion.next_step import what_holds
from tidepool.conversion.record import Conversion, Order, Work, observed_now, reported

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
JOB = Work("job", "7", "anna")
UNNAMED = Work("job", "", "", text="Slurm holds the node for busy, and lists none")


def conversion(*work: Work, began: Mapping[str, datetime] | None = None) -> Conversion:
    order = Order("shared-1", "shared", "kubernetes", NOON, "person: anna", "a test")
    return Conversion(1, order, "slurm", "emptying", began=began or {}, work=work)


def test_what_has_gone_has_ended_or_was_evicted() -> None:
    pod = Work("pod", "default/web-0", "", text="budget web allows no eviction")
    assert observed_now(conversion(JOB, pod), ()) == (
        replace(JOB, fate="ended"),
        replace(pod, fate="evicted", text=""),
    )


def test_what_was_taken_away_keeps_its_fate_while_it_ends_and_after() -> None:
    taken = replace(JOB, fate="requeued", text="its owner was told")
    record = reported(conversion(JOB), (taken,))
    assert record == (taken,)
    assert observed_now(conversion(*record), (JOB,)) == (taken,)
    assert observed_now(conversion(*record), ()) == (taken,)


def test_what_is_gone_after_force_says_so() -> None:
    (gone,) = observed_now(conversion(JOB, began={"emptying/forced": NOON}), ())
    assert gone.fate == "ended"
    assert "by force" in gone.text


@pytest.mark.parametrize("began", [{}, {"emptying/forced": NOON}])
def test_what_had_no_name_is_waited_for_and_leaves_no_line(began: Mapping[str, datetime]) -> None:
    taken = replace(JOB, fate="requeued", text="its owner was told")
    waits = observed_now(conversion(taken, began=began), (UNNAMED,))
    assert waits == (taken, UNNAMED)
    assert what_holds((UNNAMED,)) == "waits for a job (Slurm holds the node for busy, and lists none)"
    assert observed_now(conversion(*waits, began=began), ()) == (taken,)
