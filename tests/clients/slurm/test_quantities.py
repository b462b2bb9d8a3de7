"""Slurm's sizes, times, TRES and array indices, read as Slurm writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.clients.slurm.quantities import array_size, duration_s, memory_mib, moment, tres


@pytest.mark.parametrize(
    ("written", "mib"),
    [
        ("8000M", 8000),
        ("8G", 8192),
        ("1.50G", 1536),
        ("4000", 4000),
        ("2T", 2 * 1024**2),
        ("512K", 0),
        ("0", 0),
    ],
)
def test_memory_is_read_in_every_unit(written: str, mib: int) -> None:
    assert memory_mib(written) == mib


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_durations_are_read_as_slurm_writes_them(days: int, hours: int, minutes: int, seconds: int) -> None:
    # Slurm leaves out days and hours where they are none: src/common/parse_time.c, secs2time_str.
    if days:
        written = f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    elif hours:
        written = f"{hours}:{minutes:02}:{seconds:02}"
    else:
        written = f"{minutes}:{seconds:02}"
    assert duration_s(written) == ((days * 24 + hours) * 60 + minutes) * 60 + seconds


@pytest.mark.parametrize("written", ["UNLIMITED", "NOT_SET", "N/A", "", "NONE", "Partition_Limit"])
def test_no_duration_is_none(written: str) -> None:
    assert duration_s(written) is None


def test_what_is_no_duration_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration_s("soon")


def test_moments_have_a_zone() -> None:
    assert moment("86400") == datetime(1970, 1, 2, tzinfo=UTC)
    assert moment("N/A") is None
    assert moment("Unknown") is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("cpu=4,mem=8G,node=2,billing=4", {"cpu": "4", "mem": "8G", "node": "2", "billing": "4"}),
        ("gres:gpu:2", {"gres/gpu": "2"}),
        ("gres:gpu:a100:2,gres:nic:1", {"gres/gpu:a100": "2", "gres/nic": "1"}),
        ("gres/gpu:2", {"gres/gpu": "2"}),
        ("gres:gpu", {"gres/gpu": "1"}),
        ("matlab:3,fluent", {"matlab": "3", "fluent": "1"}),
        ("N/A", {}),
        ("(null)", {}),
    ],
)
def test_tres_are_read_as_amounts_and_as_requests(written: str, read: dict[str, str]) -> None:
    assert tres(written) == read


def test_tres_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        tres("cpu=4")["cpu"] = "5"  # type: ignore[index]


@pytest.mark.parametrize(
    ("tasks", "size"), [("", 1), ("7", 1), ("0-9", 10), ("0-9:2", 5), ("1,3,5-7%2", 5), ("0-9999%50", 10_000)]
)
def test_the_size_of_an_array(tasks: str, size: int) -> None:
    assert array_size(tasks) == size


def test_shortened_indices_are_an_error_and_not_a_smaller_array() -> None:
    with pytest.raises(ValueError, match="no array tasks"):
        array_size("1,3,5,...")
