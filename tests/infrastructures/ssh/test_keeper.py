"""The keeper on a host: whose it is, under a lock; and given back, it is as it was before."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructures.ssh.fake import FakeHosts, tree
from tidepool.infrastructures.ssh.keeper import program

KEY = {"stack": "physics", "fleet": "cpu", "node": "cpu-1", "generation": 1}
OTHER = {**KEY, "stack": "chemistry"}


@pytest.fixture
def hosts(tmp_path: Path) -> FakeHosts:
    return FakeHosts(tmp_path, ("alpha",))


@pytest.fixture
def root(hosts: FakeHosts) -> Path:
    return hosts.root("alpha")


def claim(hosts: FakeHosts, key: dict[str, Any] = KEY) -> Any:
    return hosts.keeper("alpha", "claim", {"key": key, "address": "10.77.1.1"})


def release(hosts: FakeHosts, key: dict[str, Any] = KEY) -> Any:
    return hosts.keeper("alpha", "release", {"key": key})


def test_a_host_is_one_nodes_until_it_is_given_back(hosts: FakeHosts) -> None:
    first = claim(hosts)
    assert first["claimed_by"] == KEY
    assert claim(hosts) == first
    assert claim(hosts, OTHER)["claimed_by"] == KEY
    assert release(hosts, OTHER) == {"released": False, "claimed_by": KEY, "kept": []}
    assert release(hosts) == {"released": True, "kept": []}
    assert release(hosts) == {"released": True, "kept": []}
    second = claim(hosts, OTHER)
    assert second["claimed_by"] == OTHER
    assert second["id"] != first["id"]


def test_of_many_who_claim_it_at_once_one_has_it(hosts: FakeHosts) -> None:
    keys = [{**KEY, "stack": f"stack-{number}"} for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda key: claim(hosts, key)["claimed_by"], keys))
    assert len({answer["stack"] for answer in answers}) == 1
    assert sum(answer == key for answer, key in zip(answers, keys, strict=True)) == 1


def test_given_back_it_is_as_it_was_before(hosts: FakeHosts, root: Path) -> None:
    (root / "etc/link").symlink_to("motd")
    (root / "etc/motd").chmod(0o640)
    before = tree(root)
    claim(hosts)
    (root / "etc/motd").write_text("a node\n")
    (root / "etc/motd").chmod(0o600)
    (root / "etc/link").unlink()
    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/slurm.conf").write_text("ClusterName=physics\n")
    (root / "var/spool/slurmd/deep").mkdir(parents=True)
    (root / "home/researcher").mkdir()
    (root / "scratch").mkdir()
    (root / "usr/local/bin/site").unlink()
    (root / "home").chmod(0o711)
    assert hosts.keeper("alpha", "note", {"key": KEY}) == {"noted": True}
    # What daemons write meanwhile is within what is ours.
    (root / "var/spool/slurmd/deep/state").write_text("later")
    assert release(hosts)["kept"] == []
    assert tree(root) == before


def test_a_link_among_files_of_packages_and_numbers_of_daemons_that_ended_go_as_well(
    hosts: FakeHosts, root: Path
) -> None:
    libraries = root / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "libc.so.6").touch()
    before = tree(root)
    claim(hosts)
    pmix = libraries / "pmix2/lib"
    pmix.mkdir(parents=True)
    (pmix / "libpmix.so").symlink_to("libpmix.so.2")
    hosts.keeper("alpha", "note", {"key": KEY})
    # slurmctld, who may not take it away, leaves it; and then Debian's package asks a slurmctld that is not there.
    (root / "run/slurmctld.pid").write_text("17\n")
    assert release(hosts) == {"released": True, "kept": []}
    assert tree(root) == before


def test_the_number_of_a_daemon_that_runs_stays(hosts: FakeHosts, root: Path, tmp_path: Path) -> None:
    """Somebody's own, which was there before the claim or came since."""
    slurmdbd = shutil.copy("/bin/sleep", tmp_path / "slurmdbd")
    with subprocess.Popen([slurmdbd, "600"]) as daemon:
        try:
            (root / "run/slurmdbd.pid").write_text(f"{daemon.pid}\n")
            (root / "run/slurmctld.pid").write_text(f"{daemon.pid}\n")
            claim(hosts)
            hosts.keeper("alpha", "note", {"key": KEY})
            assert release(hosts) == {"released": True, "kept": []}
        finally:
            daemon.kill()
    assert (root / "run/slurmdbd.pid").exists()
    # The number is another's by now.
    assert not (root / "run/slurmctld.pid").exists()


def test_of_a_host_that_an_earlier_release_claimed_nothing_goes_that_it_did_not_look_at(
    hosts: FakeHosts, root: Path
) -> None:
    pmix = root / "usr/lib/x86_64-linux-gnu/pmix2/lib"
    pmix.mkdir(parents=True)
    (pmix / "libpmix.so").symlink_to("libpmix.so.2")
    before = tree(root)
    claim(hosts)
    written = root / "var/lib/tidepool-node/before.json"
    looked = json.loads(written.read_text())
    del looked["links"]
    looked["files"] = {path: each for path, each in looked["files"].items() if "pmix" not in path}
    written.write_text(json.dumps(looked))
    assert hosts.keeper("alpha", "note", {"key": KEY}) == {"noted": True}
    assert release(hosts) == {"released": True, "kept": []}
    assert tree(root) == before


def test_what_was_cut_off_before_it_was_noted_is_undone_as_well(hosts: FakeHosts, root: Path) -> None:
    before = tree(root)
    claim(hosts)
    (root / "etc/motd").write_text("half a node\n")
    (root / "etc/munge").mkdir()
    assert release(hosts)["kept"] == []
    assert tree(root) == before


def test_what_others_did_meanwhile_stays(hosts: FakeHosts, root: Path) -> None:
    claim(hosts)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nmunge:x:980:980::/:/bin/false\n")
    (root / "etc/motd").write_text("a node\n")
    hosts.keeper("alpha", "note", {"key": KEY})
    (root / "etc/passwd").write_text(
        "root:x:0:0::/root:/bin/bash\nmunge:x:980:980::/:/bin/false\nada:x:1001:1001::/:/bin/sh\n"
    )
    (root / "etc/motd").write_text("by an administrator\n")
    (root / "etc/new").write_text("by an administrator\n")
    kept = release(hosts)["kept"]
    assert (root / "etc/passwd").read_text() == "root:x:0:0::/root:/bin/bash\nada:x:1001:1001::/:/bin/sh\n"
    assert (root / "etc/motd").read_text() == "by an administrator\n"
    assert (root / "etc/new").exists()
    assert len(kept) == 1
    assert kept[0].startswith("/etc/motd: somebody changed it since")


def test_what_the_hosts_own_services_write_meanwhile_stays(hosts: FakeHosts, root: Path) -> None:
    """Nobody kept its bytes, so it is nothing to put back."""
    claim(hosts)
    for path in ("var/lib/misc/site", "run/here"):
        (root / path).write_text("later")
    hosts.keeper("alpha", "note", {"key": KEY})
    assert release(hosts)["kept"] == []
    for path in ("var/lib/misc/site", "run/here"):
        assert (root / path).read_text() == "later"


def test_a_home_with_somebodys_files_stays_and_is_told_of(hosts: FakeHosts, root: Path) -> None:
    claim(hosts)
    (root / "home/researcher").mkdir()
    hosts.keeper("alpha", "note", {"key": KEY})
    (root / "home/researcher/thesis").write_text("years")
    assert release(hosts)["kept"] == ["/home/researcher: somebody's files are in it"]
    assert (root / "home/researcher/thesis").exists()


def test_what_is_on_a_disk_that_came_and_cannot_be_unmounted_is_nobodys_to_undo(
    hosts: FakeHosts, root: Path
) -> None:
    """The homes of all hosts are on a file server, and those that are empty as well."""
    before = tree(root)
    claim(hosts)
    (root / "export/home").mkdir(parents=True)
    with mounted(root / "home"), mounted(root / "export/home"):
        for home in ("home", "export/home"):
            (root / home / "ada").mkdir()
        hosts.keeper("alpha", "note", {"key": KEY})
        with (root / "home/open").open("w"), (root / "export/home/open").open("w"):
            kept = release(hosts)["kept"]
        assert kept == [
            "/export/home: it is in use, and mounted still",
            "/home: it is in use, and mounted still",
            "/export: something is mounted below it",
        ]
        assert (root / "home/ada").is_dir()
        assert (root / "export/home/ada").is_dir()
    assert {key: value for key, value in tree(root).items() if not key.startswith("export")} == before


def test_what_came_and_is_unmounted_hides_nothing_of_the_hosts_own(hosts: FakeHosts, root: Path) -> None:
    before = tree(root)
    claim(hosts)
    (root / "home/researcher").mkdir()
    with mounted(root / "home"):
        (root / "home/ada").mkdir()
        (root / "home/researcher").mkdir()
        hosts.keeper("alpha", "note", {"key": KEY})
        assert release(hosts)["kept"] == []
        assert not (root / "home").is_mount()
    assert tree(root) == before


@contextmanager
def mounted(place: Path) -> Iterator[None]:
    """A disk of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root: run the tests with sudo")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    try:
        yield
    finally:
        if place.is_mount():
            subprocess.run(["umount", place], check=True)


def test_a_claim_that_was_cut_off_is_finished_and_one_half_given_back_is_given_back_first(
    hosts: FakeHosts, root: Path
) -> None:
    first = claim(hosts)
    path = root / "var/lib/tidepool-node/claim.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "claiming"}))
    (root / "var/lib/tidepool-node/before.json").unlink()
    assert claim(hosts) == first
    assert json.loads(path.read_text())["state"] == "claimed"
    (root / "etc/motd").write_text("a node\n")
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "releasing"}))
    again = claim(hosts)
    assert again["id"] != first["id"]
    assert (root / "etc/motd").read_text() == "welcome\n"


def test_nobody_but_root_can_read_what_is_kept(hosts: FakeHosts, root: Path) -> None:
    claim(hosts)
    place = root / "var/lib/tidepool-node"
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / "claim.json").stat().st_mode & 0o777 == 0o600


def test_facts_say_what_a_host_has_and_change_nothing(hosts: FakeHosts, root: Path) -> None:
    before = tree(root)
    facts = hosts.keeper("alpha", "facts", {"users": ["root", "nobody-has-this"], "numbers": [0]})
    assert facts["os"] == {"ID": "debian", "VERSION_ID": "12"}
    assert facts["cpus"] >= 1
    assert facts["memory_mib"] > 100
    assert facts["users"] == {"root": [0, 0]}
    assert facts["numbers"] == {"0": "root"}
    assert facts["claim"] is None
    assert tree(root) == before


#: As preflights ask of a pool's hosts.
OF_ROLES = {
    "places": ["/etc/munge/munge.key", "/usr/bin/kubelet", "/var/lib/containerd", "/var/lib/kubelet"],
    "packages": ["containerd"],
    "links": ["none-is-named-so"],
}


def taken(hosts: FakeHosts) -> Any:
    return hosts.keeper("alpha", "facts", {"of_roles": OF_ROLES})["taken"]


def test_what_a_host_has_of_a_role_is_its_own_where_it_was_there_before_the_claim(
    hosts: FakeHosts, root: Path
) -> None:
    (root / "var/lib/containerd").mkdir()
    # Nothing is in it.
    assert taken(hosts) == []
    (root / "etc/munge").mkdir()
    (root / "etc/munge/munge.key").write_text("theirs")
    assert taken(hosts) == ["/etc/munge/munge.key"]
    claim(hosts)
    for ours in ("kubelet", "containerd"):
        (root / "var/lib" / ours / "ours").mkdir(parents=True)
    assert taken(hosts) == ["/etc/munge/munge.key"]
    release(hosts)
    (root / "var/lib/containerd/theirs").mkdir()
    claim(hosts)
    assert "/var/lib/containerd" in taken(hosts)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_of_a_pools_host_goes_what_a_role_left_behind_and_what_is_among_files_of_packages(
    hosts: FakeHosts, root: Path, is_cut_off: bool
) -> None:
    """As when nobody had it lose its role before: `layouts` are those of `tidepool.cluster.roles`."""
    for folder in ("usr/bin", "usr/libexec", "usr/share", "opt", "opt/containerd"):
        (root / folder).mkdir()
    (root / "opt/containerd").chmod(0o750)
    before = tree(root)
    claim(hosts)
    (root / "etc/systemd/system").mkdir(parents=True)
    (root / "etc/systemd/system/tidepool-kubernetes.target").touch()
    (root / "usr/bin/kubelet").write_text("a program")
    (root / "usr/share/tidepool/containers").mkdir(parents=True)
    for folder in ("var/lib/kubelet", "var/lib/containerd", "etc/cni/net.d"):
        (root / folder).mkdir(parents=True)
    (root / "opt/containerd").chmod(0o711)
    hosts.keeper("alpha", "note", {"key": KEY})
    # What a conversion makes, after the play.
    for left in (
        *("var/lib/kubelet/pods", "var/lib/cni/networks", "var/lib/containerd/images", "run/netns"),
        *("var/spool/slurmd/job", "usr/libexec/kubernetes/plugins", "opt/containerd/bin"),
    ):
        (root / left).mkdir(parents=True)
        (root / left / "one").write_text("left")
    (root / "etc/cni/net.d/10-tidepool.conflist").write_text("{}")
    layout = {
        "state": ["/etc/cni/net.d/10-tidepool.conflist", "/var/lib/cni", "/run/netns"],
        "emptied": ["/var/lib/kubelet", "/var/spool/slurmd"],
        "groups": ["none-is-named-so"],
        "links": ["none-is-named-so"],
        "routes": 0,
    }
    if is_cut_off:
        path = root / "var/lib/tidepool-node/claim.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "state": "releasing"}))
        for gone in ("var/lib/kubelet", "usr/libexec/kubernetes"):
            shutil.rmtree(root / gone)
    told = hosts.keeper("alpha", "release", {"key": KEY, "layouts": {"kubernetes": layout}})
    assert told == {"released": True, "kept": []}
    assert tree(root) == before


def test_it_waits_for_who_has_the_lock_and_says_so_in_the_end(hosts: FakeHosts, root: Path) -> None:
    text = program().replace("LOCK_S = 20.0", "LOCK_S = 0.2")
    holder = subprocess.Popen(
        ["flock", str(root / "run/tidepool-node.lock"), "sh", "-c", "echo has it; sleep 60"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        done = subprocess.run(
            [sys.executable, "-I", "-", "claim", json.dumps({"key": KEY})],
            input=text,
            env={"PATH": os.environ["PATH"], "TIDEPOOL_KEEPER_ROOT": str(root)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.killpg(holder.pid, 9)
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    assert done.returncode == 1
    assert "somebody else claims this host" in done.stderr


@pytest.mark.skipif(
    shutil.which("python3", path="/usr/bin") is None, reason="there is no Python of the system"
)
def test_a_hosts_own_python_runs_it(hosts: FakeHosts) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-", "facts", "{}"],
        input=program(),
        env={"PATH": os.environ["PATH"], "TIDEPOOL_KEEPER_ROOT": str(hosts.root("alpha"))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["architecture"]
