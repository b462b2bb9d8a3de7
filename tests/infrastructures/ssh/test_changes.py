"""What of a host's changes is undone, and in which order: pure."""

from __future__ import annotations

from typing import Any

from tidepool.infrastructures.ssh.keeper.listing import changes, in_order, is_below, merged, others_purged

FOLDER = ["d", 0o755, 0, 0]
FILE = ["f", 0o644, 0, 0, 10, 1]
NOTHING: dict[str, Any] = {"files": {}, "packages": [], "mounts": []}


def test_of_a_folder_who_has_it_counts_and_of_a_file_its_bytes_too() -> None:
    before = {**NOTHING, "files": {"/etc": FOLDER, "/etc/motd": FILE, "/etc/old": FILE}}
    files = {"/etc": [*FOLDER, 99], "/etc/motd": [*FILE[:5], 2], "/etc/new": FILE}
    found = changes(before, {"files": files, "packages": ["munge:amd64"], "mounts": ["/home"]})
    assert found == {
        "new": ["/etc/new"],
        "changed": {"/etc/motd": [*FILE[:5], 2]},
        "gone": ["/etc/old"],
        "packages": ["munge:amd64"],
        "mounts": ["/home"],
    }


def test_of_lines_ours_go_and_what_others_did_stays() -> None:
    before, left = ["root\n", "games\n"], ["root\n", "games\n", "slurm\n"]
    assert merged(before, left, ["root\n", "games\n", "slurm\n", "ada\n"]) == [*before, "ada\n"]
    # One that others took away, and one that they changed.
    assert merged(before, left, ["root\n", "slurm\n"]) == ["root\n"]
    assert merged(before, left, ["root!\n", "games\n"]) == ["games\n", "root!\n"]


def test_what_others_stand_on_ends_last() -> None:
    services = [f"tidepool-{name}" for name in ("firewall", "munged", "prepare", "slurmctld", "slurmd")]
    ended = [each.removeprefix("tidepool-") for each in in_order(services)]
    assert ended == ["slurmctld", "slurmd", "munged", "firewall", "prepare"]


def test_packages_that_others_need_by_now_are_told() -> None:
    said = "Purg slurmd [22.05]\nPurg munge [0.5]\nPurg site-monitor [1.0]\n"
    assert others_purged(said, ["munge:amd64", "slurmd"]) == ["site-monitor"]


def test_a_path_is_within_a_folder_and_not_within_one_whose_name_begins_alike() -> None:
    assert is_below("/home/ada", ["/srv", "/home"])
    assert is_below("/home", ["/home"])
    assert not is_below("/home2/ada", ["/home"])
