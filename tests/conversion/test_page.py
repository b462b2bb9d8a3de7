"""The page about conversions says what is so."""

from __future__ import annotations

from pathlib import Path

from tests.conversion.world import START
from tidepool.conversion.record import DEADLINES, SECOND_TRY_S, Order, longest_s
from tidepool.conversion.report import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "conversions.md").read_text()


def row(first: str) -> list[str]:
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_deadline_is_on_it() -> None:
    for phase, (seconds, then) in DEADLINES.items():
        cells = row("`emptying`, forced" if phase == "emptying" else f"`{phase}`")
        assert cells[3].split(",")[0] == f"{seconds:g} s", phase
        assert cells[4].startswith(f"`{then}`"), phase
    assert f"for {SECOND_TRY_S:g} s begins once more" in PAGE
    order = Order("a-1", "a", "slurm", START, "up", "", deadline_s=0)
    assert longest_s(order) == 12 * 60
    assert longest_s(order, by_image=True) == (12 + 20) * 60


def test_each_column_is_on_it() -> None:
    for name, said in COLUMNS.items():
        assert row(f"`{name}`")[1] == said
