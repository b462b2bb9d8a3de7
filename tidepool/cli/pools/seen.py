"""The pools of a stack as they are now."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from tidepool.cli.cluster import parse_outputs
from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.pools.looking import both_sides
from tidepool.cli.pools.place import Pools, read_conversions, require_pools
from tidepool.cli.pools.view import PoolsView, pools_view
from tidepool.cli.stack import Stack
from tidepool.conversion.record import Conversion


def seen(stack: Stack, pool: str | None = None) -> PoolsView:
    """All pools, or one.

    Raises:
        Failure: the cluster is not up, or has no pool of that name.
    """
    outputs = stack.outputs()
    pools = require_pools(stack, outputs)
    sides = both_sides(stack, parse_outputs(stack.name, outputs or {}).controller, pools)
    journal = read_conversions(stack)
    conversions: tuple[Conversion, ...] = ()
    if journal is not None:
        with closing(journal):
            conversions = tuple(journal.conversions())
    return pools_view(_only(pools, pool), sides, conversions, datetime.now(UTC).astimezone())


def _only(pools: Pools, name: str | None) -> Pools:
    if name is None:
        return pools
    if name not in pools.pools:
        raise Failure(
            f"there is no pool {name}", remedy=f"the pools are {', '.join(pools.pools)}", code=NOT_THERE
        )
    return replace(pools, pools={name: pools.pools[name]})
