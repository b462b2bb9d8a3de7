"""The page of workloads says of each kind what the kind says of itself, and its examples are workloads."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.lab.workloads_page import COMMON, PAGE, page_with_tables, table_of
from tidepool.lab.generators.registry import KINDS, make_workload


def test_the_page_has_all_kinds_with_their_parameters() -> None:
    page = PAGE.read_text()
    assert page == page_with_tables(page), "write it anew: python -m tests.lab.workloads_page"
    for kind in KINDS.values():
        assert table_of(kind) in page
    for name in COMMON:
        assert f"| `{name}` |" in page


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"swf"}))
def test_the_example_of_each_kind_is_a_workload(kind: str) -> None:
    (example,) = re.findall(rf"^`(\{{kind: {kind}, .*\}})`$", PAGE.read_text(), re.MULTILINE)
    said = yaml.safe_load(example)
    assert make_workload("example", said["kind"], said["parameters"], seed=1).jobs
