"""The table of services, read while its first process writes it."""

from __future__ import annotations

import zlib
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tidepool.infrastructures.local.kernel.record import ServiceState, State, parse_services

_NAMES = st.sampled_from(("end", "frontend", "slurmd", "tries"))
_TABLES = st.lists(
    st.builds(
        ServiceState,
        _NAMES,
        st.sampled_from(get_args(State)),
        st.integers(0, 4_000_000),
        st.integers(0, 12),
        st.sampled_from(("", "pods", "end")),
    ),
    max_size=6,
).map(tuple)


def _written(services: tuple[ServiceState, ...]) -> str:
    lines = "".join(
        f"{each.name}\t{each.state}\t{each.pid}\t{each.restarts}\t{each.role}\n" for each in services
    )
    return f"{lines}end\t{zlib.crc32(lines.encode())}\n"


@given(before=_TABLES, after=_TABLES, data=st.data())
def test_it_is_read_whole_or_not_at_all(
    before: tuple[ServiceState, ...], after: tuple[ServiceState, ...], data: st.DataObject
) -> None:
    """A reader sees the new one up to a place, the old one up to another, and perhaps no more."""
    old, new = _written(before), _written(after)
    written = data.draw(st.integers(0, len(new)))
    seen = new[:written] + old[written : data.draw(st.integers(0, max(len(new), len(old))))]
    assert parse_services(seen) in (before, after, None)
    assert parse_services(new) == after


def test_one_of_before_has_no_checksum() -> None:
    assert parse_services("slurmd\tup\t7\t0\nend\n") == (ServiceState("slurmd", "up", 7, 0),)
