"""The table of phases, its quantiles, and the box plots."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.switches import table_text
from tests.conversion.world import World
from tidepool.charts import DrawingError
from tidepool.charts.box_plot import write_box_plots
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import Role
from tidepool.conversion.record import Conversion, Order, Work
from tidepool.conversion.report import (
    COLUMNS,
    PHASES,
    quantile,
    quantiles,
    rows,
    write_table,
)

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def conversion(id: int, to: Role = "kubernetes", joining_s: float = 1.0) -> Conversion:
    leaves: Role = "slurm" if to == "kubernetes" else "kubernetes"
    seconds = {
        "asked/driven": 0.5,
        "holding": 0.6,
        "holding/held": 0.7,
        "emptying": 0.75,
        "leaving": 0.8,
        "leaving/lost": 1.0,
        "leaving/forgotten": 1.1,
        "joining": 1.2,
        "joining/prepared": 1.25,
        "joining/taken": 1.5,
        "done": 1.2 + joining_s,
    }
    began = {name: AT + timedelta(seconds=after) for name, after in seconds.items()}
    order = Order(f"shared-{id}", "shared", to, AT, "person", "a test")
    work = (Work("job", "7", "anna", "requeued"), Work("pod", "a/b", "", "ended"))
    return Conversion(
        id,
        order,
        leaves,
        "done",
        FrozenDict({"asked": AT, **began}),
        began["done"],
        work=work,
        text="it went",
    )


def test_the_phases_are_all_of_the_time() -> None:
    (row,) = rows([conversion(1)])
    assert sum(row.phases.values()) == pytest.approx(row.total_s) == pytest.approx(2.2)
    assert row.driven_s == pytest.approx(1.7)
    assert list(row.phases) == ["asked", "holding", "emptying", "leaving", "joining"]
    assert row.steps["take"] == pytest.approx(0.25)
    assert row.steps["serve"] == pytest.approx(0.7)
    assert sum(row.steps[step] for step in ("prepare", "take", "serve")) == pytest.approx(
        row.phases["joining"]
    )


def test_the_imaging_and_the_boot_are_told_apart(world: World) -> None:
    world.serve_by_image("slurm")
    world.drive(world.order("kubernetes"))
    (row,) = rows(world.journal.conversions())
    assert row.steps["boot"] == pytest.approx(world.machine.boots_s["kubernetes"], abs=0.5)
    assert row.steps["image"] + row.steps["boot"] == pytest.approx(row.phases["imaging"])
    assert sum(row.phases.values()) == pytest.approx(row.total_s)


def test_those_of_real_drives_are_all_of_the_time(world: World) -> None:
    world.serve("slurm")
    world.sides["slurm"].begin("4711", 20)
    for to in ("kubernetes", "slurm"):
        world.drive(world.order(to))
    found = rows(world.journal.conversions())
    assert [row.direction for row in found] == ["slurm -> kubernetes", "kubernetes -> slurm"]
    for row in found:
        assert sum(row.phases.values()) == pytest.approx(row.total_s)
        assert row.steps.keys() == {"begin", "hold", "lose", "forget", "prepare", "take", "serve"}
    assert found[0].phases["emptying"] > 19


def test_one_that_is_under_way_is_not_in_it() -> None:
    order = Order("shared-1", "shared", "slurm", AT, "person", "a test")
    assert rows([Conversion(1, order, None, "asked")]) == []


def test_the_table_says_what_its_columns_say() -> None:
    stream = io.StringIO()
    write_table(rows([conversion(2), conversion(1, "slurm")]), stream)
    one, two = csv.DictReader(io.StringIO(stream.getvalue()))
    assert tuple(one) == tuple(COLUMNS)
    assert None not in one.values()
    assert (one["id"], one["direction"], one["total_s"]) == ("1", "kubernetes -> slurm", "2.200")
    assert (two["joining_s"], two["restoring_s"], two["take_step_s"]) == ("1.000", "", "0.250")
    assert (two["work"], two["taken_away"], two["text"]) == ("2", "1", "it went")


def test_quantiles_are_by_direction_and_phase() -> None:
    found = quantiles(rows(conversion(n, joining_s=float(n)) for n in range(1, 12)))
    by_phase = {each.phase: each for each in found}
    assert list(by_phase) == [*(phase for phase in PHASES if phase not in ("imaging", "restoring")), "total"]
    joining = by_phase["joining"]
    assert (joining.count, joining.p50, joining.p90, joining.longest) == (11, 6.0, 10.0, 11.0)
    assert "183.91 s" in table_text(found)
    assert quantile([1.0], 0.99) == 1.0


def test_the_same_conversions_give_the_same_bytes(tmp_path: Path) -> None:
    found = rows([conversion(n, to, n / 3) for n in range(1, 9) for to in ("slurm", "kubernetes")])
    one, two, png = (tmp_path / name for name in ("one.svg", "two.svg", "one.png"))
    write_box_plots(found, one, png, title="Conversions")
    write_box_plots(found, two, title="Conversions")
    assert one.read_bytes() == two.read_bytes()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert one.read_text().count('id="axes_') == 2
    assert "#009e73" in one.read_text()
    assert "#cc79a7" not in one.read_text(), "nothing was restored"


@pytest.mark.parametrize(
    ("ids", "path", "said"),
    [([], "a.svg", "no conversion has arrived"), ([1], "a.pdf", "suffix"), ([1], "no/a.png", "cannot be")],
)
def test_what_cannot_be_drawn_is_told(tmp_path: Path, ids: list[int], path: str, said: str) -> None:
    with pytest.raises(DrawingError, match=said):
        write_box_plots(rows(map(conversion, ids)), tmp_path / path)
