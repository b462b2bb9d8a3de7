"""A play of roles on one host, by Ansible: what it is made of, and its own words where it fails.

Nothing of it is in arguments that others of this machine can see, and what is secret is in files for root alone, which are
gone with the play.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidepool.resources.kind import Refusal, Task
from tidepool.resources.values import whole_numbers

_HOST: Final = "host"
_LAST_LINES: Final = 25
_TASK: Final = re.compile(r"^TASK \[(.*?)\] \*+$")


@dataclass(frozen=True, slots=True)
class Play:
    """Roles of the folder ``playbooks``, with what they are told, on the host of a connection.

    ``files`` are bytes by a name; variables name them by ``{{ tidepool_files_folder }}/NAME``.
    """

    playbooks: Path
    roles: Sequence[str]
    connection: Mapping[str, Any]
    variables: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def roles_there(playbooks: Path) -> frozenset[str]:
    """The roles of a folder of playbooks."""
    return frozenset(path.name for path in (playbooks / "roles").glob("*/") if path.is_dir())


def roles_digest(playbooks: Path, roles: Iterable[str]) -> str:
    """64 hexadecimal digits: the same for the same files of these roles, and of all that they bring along."""
    digest = hashlib.sha256()
    for role in sorted(_with_others(playbooks, roles)):
        for path in sorted((playbooks / "roles" / role).rglob("*")):
            if path.is_file():
                name = path.relative_to(playbooks).as_posix()
                digest.update(f"{name}\0{path.stat().st_mode & 0o100}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def _with_others(playbooks: Path, roles: Iterable[str]) -> frozenset[str]:
    """Roles, and those that their tasks import."""
    found: set[str] = set()
    ahead = [*roles]
    while ahead:
        role = ahead.pop()
        if role in found:
            continue
        found.add(role)
        for path in (playbooks / "roles" / role / "tasks").glob("*.y*ml"):
            imports = re.findall(
                r"(?m)^ +ansible\.builtin\.(?:import|include)_role:\s+name: (\w+)", path.read_text()
            )
            ahead += imports
    return frozenset(found)


def ansible_playbook() -> Path | None:
    """The program, of this interpreter's environment; None where it is not there."""
    beside = Path(sys.executable).parent / "ansible-playbook"
    return beside if beside.is_file() else None


def run_play(play: Play, task: Task, folder: Path, *, check: bool = False) -> str:
    """Run it to its end; gives what Ansible said. With ``check`` it only says what would change.

    Raises:
        Refusal: it failed, or did not end in time, or was cancelled; with the end of what it said.
    """
    program = ansible_playbook()
    if program is None:
        raise Refusal(
            "ansible-core, which applies the roles, is not installed; run: "
            f"{sys.executable} -m pip install ansible-core"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="play-", dir=folder) as name,
        # OpenSSH's sockets, whose paths the kernel wants short, however deep the data folder is.
        tempfile.TemporaryDirectory(prefix="ssh-") as sockets,
    ):
        work = Path(name)  # for its owner alone, as the other one is
        _write(play, work)
        command = [str(program), "--inventory", str(work / "inventory.json"), str(work / "play.json")]
        command += ["--extra-vars", f"@{work / 'variables.json'}", *(["--check"] if check else [])]
        child = subprocess.Popen(
            command,
            cwd=play.playbooks,
            env=_environment(play, work, sockets),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        said, why = _followed(child, task)
    masked = _masked(said, play.secrets)
    if why or child.returncode != 0:
        what = why or f"ended with {child.returncode}"
        raise Refusal(
            f"the play failed on {play.connection['address']}: it {what}\n{_last(masked)}", "permanent"
        )
    return "\n".join(masked)


def _followed(child: subprocess.Popen[str], task: Task) -> tuple[list[str], str]:
    """Return the output until it ends, or is ended; and why it was."""
    over = threading.Event()
    why: list[str] = []

    def watch() -> None:
        while not over.wait(0.5):
            if task.cancelled() or task.left_s <= 0:
                why.append(
                    "was cancelled" if task.cancelled() else f"did not end within {task.timeout_s:g} s"
                )
                os.killpg(child.pid, signal.SIGKILL)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    said: list[str] = []
    assert child.stdout is not None
    try:
        for line in child.stdout:
            said.append(line.rstrip("\n"))
            if match := _TASK.match(said[-1]):
                task.status(match[1])
        child.wait()
    finally:
        over.set()
        watcher.join()
        child.stdout.close()
    return said, "".join(why)


def _write(play: Play, work: Path) -> None:
    at = play.connection
    way = {
        "ansible_host": at["address"],
        "ansible_port": int(at.get("port", 22)),
        "ansible_user": at["user"],
        "ansible_ssh_private_key_file": at["key"],
        "ansible_python_interpreter": "/usr/bin/python3",
        # As everywhere here: one key, and a host's own key that is known, or nothing.
        "ansible_ssh_common_args": "-F none -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=yes "
        f'-o UserKnownHostsFile="{at["known_hosts"]}"',
    }
    # Of a name that nobody there can know, for others may run programs on the host; and not in somebody's home.
    temporary = f"/tmp/tidepool-{secrets.token_hex(8)}"  # noqa: S108
    way["ansible_remote_tmp"] = temporary
    gone = {"ansible.builtin.file": {"path": temporary, "state": "absent"}}
    steps = [
        {
            "name": "Roles",
            "hosts": _HOST,
            "gather_facts": False,
            "become": at["user"] != "root",
            "roles": list(play.roles),
            "post_tasks": [
                {"name": "Nothing of Ansible stays", **gone, "check_mode": False, "changed_when": False}
            ],
        }
    ]
    files = work / "files"
    files.mkdir(mode=0o700)
    for name, content in play.files.items():
        (files / name).write_bytes(content)
    told = {
        **whole_numbers(play.variables),
        **whole_numbers(play.secrets),
        "tidepool_files_folder": str(files),
    }
    for name, value in (
        ("inventory", {"all": {"hosts": {_HOST: way}}}),
        ("play", steps),
        ("variables", told),
    ):
        (work / f"{name}.json").write_text(json.dumps(value))


def _environment(play: Play, work: Path, sockets: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME", "LANG", "TMPDIR")}
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_CONFIG": str(play.playbooks / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(play.playbooks / "roles"),
        "ANSIBLE_HOME": str(work / "ansible"),
        "ANSIBLE_LOCAL_TEMP": str(work / "ansible/tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_TIMEOUT": "60",
    }


def _masked(lines: Iterable[str], secrets: Mapping[str, Any]) -> list[str]:
    """Without what is secret, however deep it stands."""
    values = sorted(_texts(secrets), key=len, reverse=True)
    masked = []
    for line in lines:
        for value in values:
            line = line.replace(value, "[secret]")
        masked.append(line)
    return masked


def _texts(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return {text for each in value.values() for text in _texts(each)}
    if isinstance(value, list | tuple):
        return {text for each in value for text in _texts(each)}
    return {part for part in str(value).splitlines() if len(part) > 3} if value is not None else set()


def _last(lines: Sequence[str]) -> str:
    """From the last task on, and no more than a screen."""
    starts = [number for number, line in enumerate(lines) if _TASK.match(line)]
    told = [line for line in lines[starts[-1] if starts else 0 :] if line.strip()]
    return "\n".join(told[:_LAST_LINES])
