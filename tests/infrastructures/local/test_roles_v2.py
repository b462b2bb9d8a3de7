"""Roles where control groups are of version 2. This machine's hierarchy of that version will do, though version 1 has the controllers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.infrastructures.local.stacks import Stack
from tests.infrastructures.local.test_roles import lose, take, until, until_states
from tidepool.cluster.boot import Service
from tidepool.infrastructures.local.kernel import Machine, entry, machine, wait_ready
from tidepool.infrastructures.local.kernel.cgroup import hierarchies
from tidepool.infrastructures.local.kernel.cgroup_versions import CgroupsV2

_SLEEP = ("/bin/sleep", "1000")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> CgroupsV2:
    """Skips where there is no such hierarchy that can be written to."""
    found = hierarchies(Path("/proc/self/mountinfo").read_text())
    folder = next((each.folder for each in found if each.version == 2 and not each.is_read_only), None)
    if folder is None:
        pytest.skip("no control groups of version 2 are mounted")
    there = (folder / "cgroup.controllers").read_text().split()
    groups = CgroupsV2(folder, controllers=tuple(name for name in ("cpu", "memory") if name in there))
    for module in (machine, entry):
        monkeypatch.setattr(module, "choose", lambda: groups)
    return groups


@pytest.fixture(params=["", "work"], ids=["plain", "containers"])
def made(stack: Stack, groups: CgroupsV2, request: pytest.FixtureRequest) -> Iterator[Machine]:
    stack.network()
    services = (
        Service("always", _SLEEP),
        Service("one", _SLEEP, role="work"),
        Service("other", _SLEEP, role="play"),
    )
    yield stack.create(replace(stack.spec(1, *services), containers=request.param))
    stack.delete_all()


def test_a_role_has_a_group_of_its_own_that_can_hand_controllers_down(
    stack: Stack, groups: CgroupsV2, made: Machine
) -> None:
    wait_ready(stack.data, stack.name, "cpu-1", 20)
    (top,) = (groups.folder / "tidepool").glob(f"*-{stack.name}/machines/cpu-1/inside")
    runs_containers = (top / "machine").is_dir()
    for _ in range(2):
        take(stack, "work")
        until_states(stack, one="up", other="off")
        until(stack, lambda _: len(members(top / "work" / "services")) == 2)
        assert members(top / "work") == []
        assert len(members(top)) == (0 if runs_containers else 2)
        (top / "work" / "pods").mkdir()  # as a kubelet does
        lose(stack, "work")
        until_states(stack, one="off", always="up")
        assert not (top / "work").exists()
    own = "::/machine" if runs_containers else "::/"
    assert stack.run("cat", "/proc/self/cgroup").stdout.splitlines()[-1].endswith(own)
    if runs_containers:
        handed_down = (top / "cgroup.subtree_control").read_text()
        assert handed_down == (top / "cgroup.controllers").read_text()


def members(group: Path) -> list[str]:
    return (group / "cgroup.procs").read_text().split()
