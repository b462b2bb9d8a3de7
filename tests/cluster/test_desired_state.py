"""A wish is told by environment variables, and read as it was told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster.desired_state import (
    NODES_VARIABLE,
    ONLY_VARIABLE,
    ROLES_VARIABLE,
    DesiredNodes,
    DesiredNodesError,
)
from tidepool.cluster.hostlist import HostSet

hosts = st.sets(st.integers(1, 99)).map(lambda found: HostSet.from_names(f"cpu-{n}" for n in found))


by_name = st.dictionaries(st.text(), hosts)


@given(by_name, st.none() | hosts.filter(bool), by_name)
def test_what_is_told_is_read(
    nodes: dict[str, HostSet], only: HostSet | None, kubernetes: dict[str, HostSet]
) -> None:
    wish = DesiredNodes(nodes, only, kubernetes)
    assert DesiredNodes.read({"PATH": "/bin", **wish.environment}) == wish


def test_where_there_is_none_nothing_limits_anything() -> None:
    assert DesiredNodes.read({}) is None
    assert DesiredNodes.read({ONLY_VARIABLE: "cpu-1"}) is None


def test_a_wish_may_be_for_roles_alone() -> None:
    assert DesiredNodes.read(
        {ROLES_VARIABLE: '{"shared": "shared-[1,3]"}', ONLY_VARIABLE: "shared-3"}
    ) == DesiredNodes({}, HostSet("shared-3"), {"shared": HostSet("shared-[1,3]")})
    assert ROLES_VARIABLE not in DesiredNodes({"cpu": HostSet("cpu-1")}).environment


def test_a_wish_about_no_node_is_a_mistake() -> None:
    """Its operation would have no targets: it would take everything away."""
    with pytest.raises(ValueError, match="cannot be about none"):
        DesiredNodes({}, HostSet())
    read = DesiredNodes.read({NODES_VARIABLE: "{}", ONLY_VARIABLE: ""})
    assert read is not None
    assert read.only is None


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({NODES_VARIABLE: ""}, "TIDEPOOL_WISH is not JSON: "),
        ({NODES_VARIABLE: "[1]"}, 'TIDEPOOL_WISH should be hostlists by fleet, as in {"cpu": "cpu-[1-4]"}'),
        ({NODES_VARIABLE: '{"cpu": null}'}, "TIDEPOOL_WISH should be hostlists by fleet"),
        ({NODES_VARIABLE: '{"cpu": "cpu-["}'}, "TIDEPOOL_WISH: fleet cpu: "),
        ({ROLES_VARIABLE: "x"}, "TIDEPOOL_WISH_ROLES is not JSON: "),
        (
            {ROLES_VARIABLE: '{"shared": 2}'},
            'TIDEPOOL_WISH_ROLES should be hostlists by pool, as in {"shared": "shared-[1-4]"}',
        ),
        (
            {NODES_VARIABLE: "{}", ROLES_VARIABLE: '{"shared": "shared-["}'},
            "TIDEPOOL_WISH_ROLES: pool shared: ",
        ),
        ({NODES_VARIABLE: "{}", ONLY_VARIABLE: "cpu-["}, "TIDEPOOL_WISH_ONLY: "),
    ],
)
def test_what_is_none_is_told_plainly(environment: dict[str, str], said: str) -> None:
    with pytest.raises(DesiredNodesError) as caught:
        DesiredNodes.read(environment)
    assert str(caught.value).startswith(said)
