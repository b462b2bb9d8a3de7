"""How `watch` fits a terminal of any size; what it says is read as text."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.explain.records import NOW, ago, intent, job, launch, nodes, record, spec
from tests.cluster.specs import spec_mapping
from tidepool.cli.explain.lines import ASCII, UNICODE, Line, bar, drawn, glyphs_for
from tidepool.cli.explain.record import Record
from tidepool.cli.explain.watch import LEAST_COLUMNS, LEAST_LINES, frame
from tidepool.cli.explain.watch_view import WatchView, watching
from tidepool.scaling.decision import Cost, Phase, Waiting
from tidepool.scaling.memory import Backoff, Launch, Memory
from tidepool.scaling.ports import Pause


def text(lines: list[Line]) -> list[str]:
    return ["".join(cell.text for cell in line) for line in lines]


def busy(number: int) -> WatchView:
    """A cluster in which much goes on: ``number`` of everything."""
    deadline = NOW + timedelta(seconds=48)
    names = range(1, number + 1)
    return watching(
        record(
            jobs=tuple(map(job, names)),
            waiting=tuple(
                Waiting(n, "never" if n % 3 == 0 else "coming", f"reason {n % 7} " + "x" * n) for n in names
            ),
            views={
                name: view for n in names for name, view in nodes(**{f"gpu_{n}": Phase.LAUNCHING}).items()
            },
            memory=Memory(
                launches={f"gpu-{n}": Launch(ago(n), deadline, (n,)) for n in names},
                fleet_backoffs={"cpu": Backoff("boot", 1, deadline, "no answer")},
            ),
            intents=tuple(intent(1000 - n, launch(f"gpu-{n}"), ago(n), "done") for n in names),
            pause=Pause("ada", ago(10)),
        )
    )


@given(st.integers(0, 60), st.integers(1, 200), st.integers(1, 80))
def test_it_is_never_larger_than_the_terminal(number: int, columns: int, lines: int) -> None:
    shown = text(frame(busy(number), columns, lines, ASCII))
    assert 1 <= len(shown) <= lines
    assert all(len(line) <= columns for line in shown)
    if columns < LEAST_COLUMNS or lines < LEAST_LINES:
        assert shown[0].startswith(f"{columns}x{lines} is too small"[: columns - 1])


def test_a_terminal_of_80_by_24_shows_something_of_everything() -> None:
    shown = text(frame(busy(40), 80, 24, UNICODE))
    assert len(shown) == 24
    whole = "\n".join(shown)
    for word in (
        "dev",
        "the daemon runs",
        "paused by ada",
        "queue",
        "cost",
        "fleets",
        "can never run",
        "under way",
    ):
        assert word in whole, word
    assert "waiting" in whole
    assert "last decisions" in whole
    assert "more" in whole


def test_without_a_limit_all_is_there() -> None:
    shown = text(frame(busy(40), 160, None, UNICODE))
    assert sum(": 2 jobs wait for 4 CPUs" in line for line in shown) == 40


def test_it_says_plainly_that_nobody_runs() -> None:
    shown = text(frame(watching(Record("dev", NOW)), 80, 24, UNICODE))
    assert shown[1] == "no daemon has run for this stack yet; `tidepool scale` starts it"


def test_what_is_old_is_marked_as_old() -> None:
    shown = text(frame(watching(record(at=ago(34))), 80, 24, UNICODE))
    assert "what follows is 34 s old" in shown
    fresh = text(frame(watching(record()), 80, 24, UNICODE))
    assert not any("old" in line for line in fresh)


def test_trouble_with_the_journal_comes_first() -> None:
    assert text(frame(watching(record()), 80, 24, UNICODE, "the disk is full"))[0] == "the disk is full"


def test_cost() -> None:
    unpriced = text(frame(watching(record()), 160, None, UNICODE))
    assert any("no price is set" in line for line in unpriced)
    mapping = spec_mapping(limits={"budget_usd_per_month": 500, "price_usd_per_hour": 20})
    mapping["fleets"][0]["infrastructures"] = [{"name": "local", "price_usd_per_hour": 0.25}]
    view = watching(record(of=spec(**mapping), cost=Cost(12.4, 310.2, 512)))
    (line,) = (line for line in text(frame(view, 160, None, UNICODE)) if line.startswith("cost"))
    assert (
        "$12.40 of $20.00 an hour, $310.20 of $500.00 this month, $512.00 by its end; no price: gpu" in line
    )


def test_a_launch_past_its_deadline_says_so() -> None:
    late = Memory(launches={"cpu-1": Launch(ago(70), ago(10))})
    shown = text(frame(watching(record(memory=late)), 80, None, UNICODE))
    assert "  launch   cpu-1 1 min 10 s, 10 s past its time" in shown


@given(
    st.dictionaries(st.sampled_from([p for p in Phase if p is not Phase.ABSENT]), st.integers(0, 20_000)),
    st.integers(0, 20_000),
    st.integers(10, 40),
)
def test_a_bar_is_as_wide_as_it_is_told_and_hides_no_phase(
    phases: dict[Phase, int], most: int, width: int
) -> None:
    drawn_bar = "".join(piece for piece, _ in bar(phases, most, width, ASCII))
    assert len(drawn_bar) == width
    for phase, count in phases.items():
        assert (ASCII.phases[phase] in drawn_bar) >= (count > 0)


def test_a_small_fleet_has_a_character_for_each_node() -> None:
    pieces = bar({Phase.BUSY: 3, Phase.LAUNCHING: 2}, 8, 20, ASCII)
    assert "".join(piece for piece, _ in pieces) == "###++..." + " " * 12


@pytest.mark.parametrize(
    ("encoding", "glyphs"), [("utf-8", UNICODE), ("UTF8", UNICODE), ("ascii", ASCII), (None, ASCII)]
)
def test_a_stream_that_knows_ascii_only_gets_ascii(encoding: str | None, glyphs: object) -> None:
    assert glyphs_for(encoding) is glyphs


def test_what_people_wrote_moves_no_cursor() -> None:
    from io import StringIO

    from rich.console import Console

    view = watching(record(waiting=(Waiting(1, "held", "\x1b[2J[bold]x\n\r"),)))
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(drawn(frame(view, 80, None, UNICODE)))
    assert "\x1b[2J" not in captured.get()
    assert "[bold]x" in captured.get()
