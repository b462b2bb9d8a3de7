"""Plays on hosts: when they run, what they are told, where secrets are, and what is told when one fails."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.provider.calls import Calls
from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.images import ImageStore
from tidepool.infrastructures.local.boots import BootKind
from tidepool.infrastructures.local.resources import BootModel
from tidepool.infrastructures.ssh import play as plays
from tidepool.infrastructures.ssh.kinds import SshPlaybookKind
from tidepool.infrastructures.ssh.play import Play, roles_digest, run_play
from tidepool.infrastructures.ssh.resources import SshPlaybookModel
from tidepool.resources.kind import Home, Refusal, Task

PLAYBOOK = "tidepool:ssh:Playbook"
WAY = {
    "kind": "host",
    "address": "192.0.2.1",
    "user": "admin",
    "key": "/k",
    "known_hosts": "/h",
    "port": 2222.0,
}
CLAIM = {"stack": "dev", "fleet": "cpu", "node": "cpu-1", "generation": 1}
#: Stands for ansible-playbook: says what it was given, and ends as it is told to.
FAKE = """#!/bin/sh
printf '%s\\n' "$0 $*" "$(env)" >"$(dirname "$0")/called"
for word; do case $word in @*) cat "${word#@}" >"$(dirname "$0")/variables" ;; *inventory.json) cat "$word" >"$(dirname "$0")/inventory"
    stat -c '%a' "$(dirname "$word")" >"$(dirname "$0")/mode" ;; *play.json) cat "$word" >"$(dirname "$0")/play" ;; esac; done
cat "$(dirname "$0")/says"
exit "$(cat "$(dirname "$0")/code")"
"""


def task(timeout_s: float = 60.0) -> Task:
    return Task("urn", timeout_s, time.monotonic() + timeout_s, print_nothing, print_nothing, print_nothing)


def print_nothing(_: str) -> None:
    pass


@pytest.fixture
def playbooks(tmp_path: Path) -> Path:
    folder = tmp_path / "playbooks"
    for role, text in (
        ("one", "- name: It\n  ansible.builtin.import_role:\n    name: two\n"),
        ("two", ""),
        ("three", ""),
    ):
        (folder / "roles" / role / "tasks").mkdir(parents=True)
        (folder / "roles" / role / "tasks/main.yaml").write_text(text)
    return folder


@pytest.fixture
def ansible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in for ansible-playbook."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ansible-playbook").write_text(FAKE)
    (folder / "ansible-playbook").chmod(0o755)
    (folder / "says").write_text("PLAY [Roles] ***\n")
    (folder / "code").write_text("0")
    monkeypatch.setattr(plays, "ansible_playbook", lambda: folder / "ansible-playbook")
    return folder


def test_a_play_is_told_all_of_it_in_files_for_root_alone(
    ansible: Path, playbooks: Path, tmp_path: Path
) -> None:
    play = Play(playbooks, ["one"], WAY, {"users": [{"uid": 980.0}]}, {"token": "very secret"})
    run_play(play, task(), tmp_path / "plays")
    called = (ansible / "called").read_text()
    assert "very secret" not in called
    assert "192.0.2.1" not in called
    assert json.loads((ansible / "variables").read_text()) | {"tidepool_files_folder": ""} == {
        "users": [{"uid": 980}],
        "token": "very secret",
        "tidepool_files_folder": "",
    }
    way = json.loads((ansible / "inventory").read_text())["all"]["hosts"]["host"]
    assert (way["ansible_host"], way["ansible_port"], way["ansible_user"]) == ("192.0.2.1", 2222, "admin")
    assert "StrictHostKeyChecking=yes" in way["ansible_ssh_common_args"]
    (steps,) = json.loads((ansible / "play").read_text())
    assert (steps["roles"], steps["become"]) == (["one"], True)
    assert (ansible / "mode").read_text().strip() == "700"
    # Nothing of it is left.
    assert list((tmp_path / "plays").iterdir()) == []


def test_sockets_of_ssh_have_short_paths_however_deep_the_data_folder_is(
    ansible: Path, playbooks: Path, tmp_path: Path
) -> None:
    deep = tmp_path / ("a" * 100)
    deep.mkdir()
    run_play(Play(playbooks, ["one"], WAY), task(), deep)
    (sockets,) = re.findall(r"(?m)^ANSIBLE_SSH_CONTROL_PATH_DIR=(.*)", (ansible / "called").read_text())
    # The kernel takes 108 bytes. Ansible's names have 10, and until it listens OpenSSH's have 17 more.
    assert len(f"{sockets}/{'n' * 10}.{'r' * 16}") < 108
    assert not Path(sockets).exists()


def test_a_play_that_fails_says_so_in_its_own_words_without_what_is_secret(
    ansible: Path, playbooks: Path, tmp_path: Path
) -> None:
    (ansible / "code").write_text("2")
    (ansible / "says").write_text(
        "TASK [users : Groups] ****\nok: [host]\nTASK [chrony : The package] ****\n"
        'fatal: [host]: FAILED! => {"msg": "no package chrony, for very secret"}\nPLAY RECAP ****\n'
    )
    play = Play(playbooks, ["one"], WAY, {}, {"deep": [{"token": "very secret"}]})
    with pytest.raises(Refusal) as raised:
        run_play(play, task(), tmp_path / "plays")
    said = str(raised.value)
    assert said.startswith("the play failed on 192.0.2.1: it ended with 2\nTASK [chrony : The package]")
    assert "no package chrony, for [secret]" in said
    assert "users : Groups" not in said


def test_a_play_that_takes_too_long_is_ended(ansible: Path, playbooks: Path, tmp_path: Path) -> None:
    (ansible / "ansible-playbook").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(Refusal, match=r"did not end within 0\.1 s"):
        run_play(Play(playbooks, [], WAY), task(0.1), tmp_path / "plays")


def test_a_role_and_all_that_it_brings_along_decide_whether_a_play_runs_again(playbooks: Path) -> None:
    before = roles_digest(playbooks, ["one"])
    (playbooks / "roles/three/tasks/main.yaml").write_text("- name: Other\n")
    assert roles_digest(playbooks, ["one"]) == before
    (playbooks / "roles/two/tasks/main.yaml").write_text("- name: Other\n")
    assert roles_digest(playbooks, ["one"]) != before


class Hosts:
    """Notes what it is asked."""

    def __init__(self, noted: bool = True) -> None:
        self.noted = noted
        self.asked: list[tuple[str, Any]] = []

    def __call__(self, way: Mapping[str, Any], verb: str, told: Mapping[str, Any], timeout_s: float) -> Any:
        self.asked.append((verb, told))
        return {"noted": self.noted}


def wanted(playbooks: Path, **changes: Any) -> SshPlaybookModel:
    fields: dict[str, Any] = {
        "roles": ("one",),
        "connection": WAY,
        "variables": {},
        "secrets": {},
        "stack": "dev",
        "boot": "",
        "claim": {},
    }
    return SshPlaybookModel(playbooks=str(playbooks), **{**fields, **changes})


def test_a_boot_is_told_to_the_role_services_but_for_what_is_the_hosts_own(
    tmp_path: Path, playbooks: Path
) -> None:
    boot = BootModel(
        stack="dev",
        boot="cpu-hosts",
        services=(
            Service("munged", ("/usr/sbin/munged",), user="munge"),
            Service("sshd", ("/usr/sbin/sshd",)),
        ),
        files=(
            File("/etc/munge/munge.key", "bXkga2V5", "0400", "munge", "munge", is_base64=True),
            File("/etc/ssh/authorized_keys.d/root", "ssh-ed25519 AAAA"),
        ),
        folders=(Folder("/run/munge", owner="munge", group="munge"),),
        mounts=(Mount("/of-this-machine", "/home", read_only=False),),
    )
    BootKind(Home(tmp_path, tmp_path)).create(boot, task())
    seen: list[Play] = []

    def keeps(play: Play, *_: object) -> str:
        seen.append(play)
        return ""

    kind = SshPlaybookKind(Home(tmp_path, tmp_path), keeps, Hosts())
    home = [{"source": "nas:/home", "target": "/home"}]
    told = {"tidepool_node": "cpu-1", "tidepool_mounts": home}
    kind.create(wanted(playbooks, boot="cpu-hosts", variables=told), task())
    (play,) = seen
    assert [each["name"] for each in play.variables["tidepool_services"]] == ["munged"]
    (file,) = play.variables["tidepool_files"]
    assert file["path"] == "/etc/munge/munge.key"
    assert file["src"] == "{{ tidepool_files_folder }}/0"
    assert play.files == {"0": b"my key"}
    assert play.variables["tidepool_folders"] == [
        {"path": "/run/munge", "mode": "0755", "owner": "munge", "group": "munge"}
    ]
    assert {key: play.variables[key] for key in told} == told


def test_a_pools_host_gets_what_its_image_has_and_is_told_where_that_is_gone(
    tmp_path: Path, playbooks: Path
) -> None:
    names = ("containerd", "containernetworking-plugins", "runc")
    store, digest = ImageStore(tmp_path / "images"), "0" * 64
    store.partial(digest).mkdir(parents=True)
    sizes = {"epoch": 0, "size_mib": 1, "root_bytes": 1}
    packages = [[name, "1.0", "amd64"] for name in names]
    about = {"name": "debian-12-converged", "release": "bookworm", "architecture": "amd64", **sizes}
    store.finish(digest, {**about, "packages": packages})
    seen: list[Play] = []

    def keeps(play: Play, *_: object) -> str:
        seen.append(play)
        return ""

    kind = SshPlaybookKind(Home(tmp_path, store.folder), keeps, Hosts())
    told = {"tidepool_daemon_packages": ["slurmd"]}
    kind.create(wanted(playbooks, image=digest, variables=told), task())
    (play,) = seen
    assert play.variables["tidepool_daemon_packages"] == ["slurmd", *(f"{name}=1.0" for name in names)]
    assert play.variables["tidepool_kubelet"] == str(store.folder / digest / "root/usr/bin/kubelet")
    with pytest.raises(
        Refusal, match="is gone, from which the host gets its kubelet: `tidepool up --refresh`"
    ):
        kind.create(wanted(playbooks, image="1" * 64, variables=told), task())
    assert len(seen) == 1


def test_what_a_play_changed_is_noted_even_where_it_failed(tmp_path: Path, playbooks: Path) -> None:
    def fails(*_: object) -> str:
        raise Refusal("the play failed")

    hosts = Hosts()
    kind = SshPlaybookKind(Home(tmp_path, tmp_path), fails, hosts)
    with pytest.raises(Refusal, match="the play failed"):
        kind.create(wanted(playbooks, claim=CLAIM), task())
    assert hosts.asked == [("note", {"key": CLAIM})]


def test_a_host_that_was_given_back_meanwhile_is_told_of(tmp_path: Path, playbooks: Path) -> None:
    kind = SshPlaybookKind(Home(tmp_path, tmp_path), lambda *_: "", Hosts(noted=False))
    with pytest.raises(Refusal, match="is not claimed by cpu-1 any more"):
        kind.update("id", wanted(playbooks), wanted(playbooks, claim=CLAIM), task())


def inputs(playbooks: Path, **changes: Any) -> dict[str, Any]:
    return {"playbooks": str(playbooks), "roles": ["one"], "connection": WAY, **changes}


def test_mistakes_are_told_in_previews_with_what_there_is(tmp_path: Path, playbooks: Path) -> None:
    calls = Calls(tmp_path, PLAYBOOK)
    assert calls.failures(inputs(playbooks)) == {}
    assert "there are one, three, two" in calls.failures(inputs(playbooks, roles=["chronny"]))["roles"]
    assert "no folder `roles`" in calls.failures(inputs(tmp_path / "none"))["playbooks"]
    assert "kind `host`" in calls.failures(inputs(playbooks, connection={"kind": "local"}))["connection"]
    both = inputs(playbooks, variables={"a": 1.0}, secrets={"a": "x"})
    assert "among the variables too" in calls.failures(both)["secrets"]


def test_a_change_is_another_play_and_another_claim_another_resource(tmp_path: Path, playbooks: Path) -> None:
    calls = Calls(tmp_path, PLAYBOOK)
    old = {**inputs(playbooks), "digest": "a", "host": "alpha/1"}
    for change in ({"digest": "b"}, {"variables": {"a": 1.0}}, {"roles": ["two"]}):
        answer = calls.diff(old, {**old, **change})
        assert answer.changes
        assert not answer.replaces
    assert calls.diff(old, {**old, "host": "alpha/2"}).replaces == ["host"]
    assert not calls.diff(old, dict(old)).changes


def test_another_address_of_a_host_is_another_host_and_another_key_is_not(tmp_path: Path) -> None:
    calls = Calls(tmp_path, "tidepool:ssh:Host")
    old = {"stack": "dev", "node": "cpu-1", "host": "alpha", "address": "10.0.0.1", "connection": WAY}
    assert calls.failures(old) == {}
    assert not calls.diff(old, {**old, "connection": {**WAY, "key": "/other"}}).replaces
    for change in ({"connection": {**WAY, "address": "192.0.2.9"}}, {"host": "beta"}, {"stack": "other"}):
        answer = calls.diff(old, {**old, **change})
        assert answer.replaces == [*change]
        assert answer.delete_before_replace
    assert "IPv4" in calls.failures({**old, "address": "alpha"})["address"]


def test_the_programs_own_files_are_for_root_alone(tmp_path: Path, ansible: Path, playbooks: Path) -> None:
    run_play(Play(playbooks, [], WAY), task(), tmp_path / "plays")
    assert stat.S_IMODE((tmp_path / "plays").stat().st_mode) == 0o700
    assert list((tmp_path / "plays").iterdir()) == []
