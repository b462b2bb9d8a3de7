"""docs/faults.md names each fault with its test, and each test of a fault stands there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "faults.md"
HERE = sorted(Path(__file__).parent.glob("test_faults_*.py"))
#: How many faults each part of the list names at least.
LEAST = {"Ours": 10, "Slurm's": 18, "The infrastructure's": 12, "Learned from others' issue trackers": 10}
#: Tests of faults that are no fault of the list by themselves.
BESIDE = {"test_every_intent_says_what_came_of_it", "test_one_node_that_fails_holds_back_none_of_its_fleet"}


def rows() -> dict[str, list[list[str]]]:
    """The rows of each part's table: fault, what happens, tests in simulation, real ones."""
    found: dict[str, list[list[str]]] = {}
    part = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            part = line[3:]
        elif line.startswith("| ") and not line.startswith(("| fault", "|---")):
            found.setdefault(part, []).append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return found


def named_here() -> set[str]:
    functions = (node for path in HERE for node in ast.parse(path.read_text()).body)
    names = {node.name for node in functions if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("test_")} - set(globals())


def test_every_fault_of_the_list_has_a_test_of_that_name() -> None:
    there = named_here()
    for part, found in rows().items():
        assert len(found) >= LEAST[part], part
        for fault, happens, simulated, *_ in found:
            assert happens, fault
            named = re.findall(r"`(test_\w+)`", simulated)
            elsewhere = re.findall(r"`(tidepool/[\w/]+)`", simulated)
            assert named or elsewhere, fault
            assert all((ROOT / place).exists() for place in elsewhere), fault
            assert set(named) <= there, fault


def test_every_test_of_a_fault_stands_in_the_list() -> None:
    page = PAGE.read_text()
    assert {name for name in named_here() - BESIDE if f"`{name}`" not in page} == set()


def test_the_tests_with_real_kills_are_there() -> None:
    named = {
        name for found in rows().values() for row in found for name in re.findall(r"`(test_\w+)`", row[3])
    }
    there = {
        node.name
        for path in [
            *(ROOT / "tests/whole").glob("test_*.py"),
            *(ROOT / "tests/scaling/daemon").glob("test_*.py"),
        ]
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert named
    assert named <= there


def test_every_part_of_the_list_is_there() -> None:
    assert set(rows()) == set(LEAST)
