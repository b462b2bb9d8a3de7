"""Both versions of control groups. Where this machine has one of them only, the other's texts are compared."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.infrastructures.local.stacks import control_groups
from tests.machine_faults import freeze
from tidepool.infrastructures.local.kernel.cgroup import (
    Hierarchy,
    Limits,
    hierarchies,
    processor_list,
    processor_text,
)
from tidepool.infrastructures.local.kernel.cgroup_versions import CgroupsV1, CgroupsV2, choose

_MOUNTINFO = """\
24 1 254:0 / / rw,relatime - ext4 /dev/root rw
30 24 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:27 / /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory
33 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
"""


def test_hierarchies_are_read_from_the_kernel_s_table() -> None:
    assert list(hierarchies(_MOUNTINFO)) == [
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct"), 1, frozenset(["rw", "cpu", "cpuacct"]), False),
        Hierarchy(Path("/sys/fs/cgroup/memory"), 1, frozenset(["rw", "memory"]), True),
        Hierarchy(Path("/sys/fs/cgroup/unified"), 2, frozenset(), False),
    ]


def _files(folder: Path, *names: str) -> None:
    """As the kernel does, which fills each new group."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("")


@pytest.mark.parametrize(
    ("limits", "cpu", "memory", "swap"),
    [
        (Limits(1.5, 64), "150000 100000", "67108864", "0"),
        (Limits(0.001, 1), "1000 100000", "1048576", "0"),
        (Limits(), "max 100000", "max", "max"),
    ],
)
def test_limits_of_version_2(tmp_path: Path, limits: Limits, cpu: str, memory: str, swap: str) -> None:
    for group in (".", "tidepool", "tidepool/x"):
        _files(tmp_path / group, "cgroup.subtree_control", "cpu.max", "memory.max", "memory.swap.max")
    CgroupsV2(tmp_path).create("tidepool/x", limits)
    inner = tmp_path / "tidepool" / "x"
    texts = [(inner / name).read_text() for name in ("cpu.max", "memory.max", "memory.swap.max")]
    assert texts == [cpu, memory, swap]
    # Handed down from group to group, but not to what is in the last one.
    assert "+memory" in (tmp_path / "cgroup.subtree_control").read_text()
    assert "+memory" in (tmp_path / "tidepool" / "cgroup.subtree_control").read_text()
    assert (inner / "cgroup.subtree_control").read_text() == ""


def test_kills_of_version_2_are_counted(tmp_path: Path) -> None:
    _files(tmp_path / "x", "memory.events")
    (tmp_path / "x" / "memory.events").write_text("low 0\noom 5\noom_kill 3\noom_group_kill 0\n")
    assert CgroupsV2(tmp_path).memory_kills("x") == 3


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def _real() -> Iterator[CgroupsV1 | CgroupsV2]:
    """Those that this machine has, with the controllers that are free for them."""
    found = list(hierarchies(Path("/proc/self/mountinfo").read_text()))
    for each in found:
        if each.version == 2 and not each.is_read_only:
            yield CgroupsV2(each.folder, controllers=())
    named: dict[str, Path] = {
        name: each.folder
        for each in found
        for name in ("cpu", "memory", "freezer")
        if name in each.controllers
    }
    if len(named) == 3:
        yield CgroupsV1(named, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups need root")
@pytest.mark.parametrize("cgroups", list(_real()), ids=lambda each: type(each).__name__)
def test_real_groups(cgroups: CgroupsV1 | CgroupsV2, sleeping: subprocess.Popen[bytes]) -> None:
    top = f"tidepool-test-{uuid.uuid4().hex[:8]}"
    group = f"{top}/inner"
    for _ in range(2):
        cgroups.create(group, Limits(1, 64))
    cgroups.create(group, Limits(1, 32))
    cgroups.create(group, Limits())
    assert cgroups.members(group) == frozenset()
    assert cgroups.below(top) == ("inner",)
    cgroups.add(group, sleeping.pid)
    assert cgroups.members(top) == {sleeping.pid}
    assert not cgroups.is_frozen(group)
    freeze(cgroups, group)
    assert cgroups.is_frozen(group)
    cgroups.thaw(group)
    assert not cgroups.is_frozen(group)
    sleeping.kill()
    sleeping.wait(10)
    for _ in range(2):
        cgroups.remove(group)
    assert control_groups(top) == []
    # What is gone has no members, is not frozen, and can be thawed.
    assert cgroups.members(group) == frozenset()
    assert cgroups.below(top) == ()
    assert not cgroups.is_frozen(group)
    cgroups.thaw(group)


@pytest.mark.skipif(os.geteuid() != 0, reason="control groups need root")
def test_a_bound_group_runs_where_it_may_and_so_do_those_below_it(sleeping: subprocess.Popen[bytes]) -> None:
    cgroups = choose()
    group = f"tidepool/test-{uuid.uuid4().hex[:8]}"
    processor = max(os.sched_getaffinity(0))
    cgroups.create(group, Limits())
    try:
        cgroups.create(f"{group}/inside", Limits())
        cgroups.add(f"{group}/inside", sleeping.pid)
        cgroups.bind(group, (processor,))
        assert os.sched_getaffinity(sleeping.pid) == {processor}
        assert cgroups.cpu_s(group) >= 0.0
    finally:
        sleeping.kill()
        sleeping.wait()
        cgroups.remove(group)
    with pytest.raises(FileNotFoundError):
        cgroups.cpu_s(group)


@given(st.sets(st.integers(0, 300)))
def test_processors_are_read_as_they_are_written(processors: set[int]) -> None:
    assert processor_list(processor_text(processors)) == processors


def test_ranges_of_processors_are_read() -> None:
    assert processor_list("0-2,5,7-7\n") == {0, 1, 2, 5, 7}
    assert processor_list("\n") == frozenset()
