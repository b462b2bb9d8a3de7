"""What a machine lacks is told with its remedy: all of it, and before anything is made."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidepool.infrastructures.local.kernel import Lack, Plans, birth, kubelets_at_most, preflight
from tidepool.infrastructures.local.kernel.cgroup import Hierarchy
from tidepool.infrastructures.local.kernel.cgroup_versions import lacking
from tidepool.infrastructures.local.kernel.confinement import Unheld, lacking_for_jobs
from tidepool.infrastructures.local.kernel.preflight import _host_routes

_V1 = ("cpu,cpuacct", "memory", "freezer")


def _v1(*mounted: str, read_only: bool = False) -> list[Hierarchy]:
    return [
        Hierarchy(Path("/sys/fs/cgroup", name), 1, frozenset(["rw", *name.split(",")]), read_only)
        for name in mounted
    ]


def _v2(
    folder: Path, controllers: str, handed_down: str = "", processes: str = "", root: bool = True
) -> Hierarchy:
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(handed_down)
    (folder / "cgroup.procs").write_text(processes)
    if not root:
        (folder / "cgroup.type").write_text("domain\n")
    return Hierarchy(folder, 2, frozenset(), is_read_only=False)


def test_control_groups_that_will_do() -> None:
    assert lacking(_v1(*_V1)) == []


def test_version_2_will_do_where_it_can_hand_down(tmp_path: Path) -> None:
    assert lacking([_v2(tmp_path, "cpu io memory pids", processes="1\n")]) == []


def test_controllers_that_are_not_delegated(tmp_path: Path) -> None:
    reasons = lacking([_v2(tmp_path, "pids", root=False)])
    assert len(reasons) == 2
    assert "controller cpu is not delegated" in reasons[0][0]
    assert "Delegate=cpu memory" in reasons[1][1]


def test_a_container_whose_processes_sit_in_its_root(tmp_path: Path) -> None:
    ((_, remedy),) = lacking([_v2(tmp_path, "cpu memory", processes="1\n", root=False)])
    assert f"mkdir {tmp_path}/init" in remedy
    assert lacking([_v2(tmp_path, "cpu memory", "cpu memory", processes="1\n", root=False)]) == []


def test_other_control_groups_that_will_not_do() -> None:
    assert "mount -t cgroup2" in lacking([])[0][1]
    (reason,) = lacking(_v1("cpu", "memory"))
    assert reason == (
        "the control group controller freezer is not mounted",
        "mkdir -p /sys/fs/cgroup/freezer && mount -t cgroup -o freezer cgroup /sys/fs/cgroup/freezer",
    )
    assert len(lacking(_v1(*_V1, read_only=True))) == 3
    ((_, remedy),) = lacking([Hierarchy(Path("/sys/fs/cgroup"), 2, frozenset(), is_read_only=True)])
    assert "--privileged" in remedy


_KERNEL = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
_KERNEL += "".join(f"{name}\t1\t1\t1\n" for name in ("cpu", "memory", "freezer", "cpuset", "devices"))


def test_what_jobs_cannot_be_held_to_is_told_with_the_remedy(tmp_path: Path) -> None:
    whole = _v1(*_V1, "cpuset", "devices")
    assert lacking_for_jobs(whole, _KERNEL) == ()
    (cpuset,) = lacking_for_jobs(whole[:3] + whole[4:], _KERNEL)
    assert cpuset.what.startswith(
        "jobs are not held to their processors: the control group controller cpuset"
    )
    assert cpuset.remedy.startswith("mkdir -p /sys/fs/cgroup/cpuset && mount -t cgroup -o cpuset cgroup")
    (devices,) = lacking_for_jobs(whole[:4], _KERNEL.replace("devices\t1\t1\t1", "devices\t0\t1\t0"))
    assert devices.remedy == "boot one with CONFIG_CGROUP_DEVICE"
    assert lacking_for_jobs([_v2(tmp_path, "cpu cpuset memory")], "") == ()
    (delegated,) = lacking_for_jobs([_v2(tmp_path, "cpu memory")], "")
    assert "Delegate=cpu cpuset memory" in delegated.remedy


def test_they_are_in_the_way_of_who_confines_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lack = Unheld("devices", "jobs are not held to their devices", "mount it")
    monkeypatch.setattr(sys.modules[preflight.__module__], "unheld", lambda: (lack,))

    def told(*controllers: str) -> list[str]:
        found = preflight(tmp_path / "data", Plans(controllers=controllers))
        return [each.remedy for each in found if each.what == lack.what and each.fatal]

    assert told("cpuset") == []
    assert told("devices") == [
        "mount it; or write process_tracking: linuxproc, by which no job is held to anything"
    ]


def test_without_root_all_else_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    data = tmp_path / "data"
    said = [str(lack) for lack in preflight(data)]
    assert said[0] == "namespaces, mounts and control groups need root: run it with sudo"
    assert "the command ip is not on PATH: apt-get install iproute2" in said
    assert "the command nsenter is not on PATH: apt-get install util-linux" in said
    assert "there is no C compiler (cc) on PATH: apt-get install gcc libc6-dev" in said
    assert not data.exists(), "nothing was tried"


def test_too_many_machines_for_the_kernel_s_tables(data: Path) -> None:
    found = preflight(data, Plans(machines=1_000_000, memory_mib=1 << 30))
    assert "sysctl -w net.ipv4.neigh.default.gc_thresh3=2000000" in [lack.remedy for lack in found]
    assert "sysctl -w kernel.pid_max=16000000" in [lack.remedy for lack in found]
    (memory,) = (lack for lack in found if "MiB together" in lack.what)
    assert not memory.fatal


def test_kubelets_need_room_to_watch_files(data: Path) -> None:
    fit = kubelets_at_most()
    assert 8 * fit <= int(Path("/proc/sys/fs/inotify/max_user_instances").read_text()) < 8 * (fit + 1)
    assert [lack for lack in preflight(data, Plans(kubelets=fit)) if "inotify" in lack.what] == []
    (lack,) = (each for each in preflight(data, Plans(kubelets=fit + 1)) if "inotify" in each.what)
    assert lack.fatal
    assert f"too few for {fit + 1} machines with a kubelet" in lack.what
    assert lack.remedy == f"sysctl -w fs.inotify.max_user_instances={8 * (fit + 1)}"


def test_a_table_that_is_large_enough_for_most_is_a_word_of_warning(data: Path) -> None:
    there = int(Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3").read_text())
    found = preflight(data, Plans(machines=there // 3))
    (told,) = (lack for lack in found if "gc_thresh3" in lack.what)
    assert not told.fatal
    assert "span" in told.what


def test_a_range_in_use_is_told() -> None:
    table = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    found = [(interface, str(network)) for interface, network in _host_routes(table)]
    assert found == [("eth0", "0.0.0.0/0"), ("eth0", "10.77.0.0/16")]


def test_a_range_of_this_host_is_told(data: Path) -> None:
    routes = [str(n) for _, n in _host_routes(Path("/proc/net/route").read_text()) if n.prefixlen]
    if not routes:
        pytest.skip("this host has no network")
    (lack,) = preflight(data, Plans(cidrs=(routes[0],)))
    assert f"the range {routes[0]} is in use" in lack.what
    assert not lack.fatal


def test_a_data_folder_that_overlays_cannot_lie_on(data: Path, tmp_path: Path) -> None:
    """On an overlay without room for extended attributes, as in most containers."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from tidepool.infrastructures.local.kernel import preflight\n"
        "for lack in preflight(Path(sys.argv[1])): print(lack)\n"
    )
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    script = 'mount -t overlay overlay -o "$1" "$2" && exec "$3" -c "$4" "$2/data"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh"]
    arguments = [layers, str(tmp_path / "merged"), sys.executable, code]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=True)
    assert "no overlay can be mounted on" in done.stdout
    assert "put the data folder on a disk with ext4" in done.stdout


def test_lacks_are_sentences() -> None:
    assert str(Lack("a is missing", "apt-get install a")) == "a is missing: apt-get install a"


def test_a_chroot_is_refused(data: Path, tmp_path: Path) -> None:
    """In one, who enters a machine would stand on the host's root. What is refused here never ran a command."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tidepool.infrastructures.local.kernel import LocalError, NetworkSpec, create_network, delete_network, preflight\n"
        "data = Path(sys.argv[1])\n"
        "for lack in preflight(data): print(lack)\n"
        "try: create_network(data, NetworkSpec('chrooted', 'net', '10.77.0.0/16'))\n"
        "except LocalError as error: print('network:', error)\n"
        "delete_network(data, 'chrooted', 'net')\n"
    )
    shell = 'mount --rbind / "$1" && exec chroot "$1" sh -c \'cd "$0" && exec "$@"\' "$2" "$3" -c "$4" "$5"'
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        shell,
        "sh",
        str(tmp_path),
        str(Path.cwd()),
        sys.executable,
        code,
    ]
    done = subprocess.run([*command, str(data)], capture_output=True, text=True, timeout=60, check=True)
    told = done.stdout.splitlines()
    why = "the host's root would stay within the machine's reach, for this is a chroot"
    assert told[0] == f"{why}: leave the chroot; in a container with a root of its own it works"
    assert told[1] == f"network: {why}"


_OF_TRIAL = sys.modules["tidepool.infrastructures.local.kernel.preflight"]


def test_a_compiler_that_takes_long_takes_nothing_from_the_trial(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under load it took all of it, and the machine seemed to lack namespaces."""
    late_s = [1000.0]

    def compiles(folder: Path) -> Path:
        late_s[0] = 0.0
        return birth.init_program(folder)

    monkeypatch.setattr(_OF_TRIAL, "init_program", compiles)
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() - late_s[0])
    monkeypatch.setattr(_OF_TRIAL, "time", clock)
    assert not [lack for lack in preflight(tmp_path / "new") if lack.fatal or "too busy" in lack.what]


def test_what_took_too_long_to_try_is_no_lack(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_OF_TRIAL, "_TRIAL_S", -1.0)
    (told,) = (lack for lack in preflight(data) if "too busy" in lack.what)
    assert not told.fatal
    assert list(data.glob("preflight-*")) == []
