"""tidepool:ssh:Playbook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tidepool.cluster.boot import Boot, File
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.local.kinds.boot import boot_path, load_boot
from tidepool.infrastructures.ssh.ask import CLAIM_S, Ask, ask
from tidepool.infrastructures.ssh.errors import HostError
from tidepool.infrastructures.ssh.kinds.play import Play, roles_digest, roles_there, run_play
from tidepool.infrastructures.ssh.resources import SshPlaybook, SshPlaybookModel
from tidepool.resources.errors import Refusal
from tidepool.resources.kind import Home, Kind, Made, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

Run = Callable[[Play, Task, Path], str]

#: Of a boot, what is the host's own affair: who logs in, and by what.
_HOSTS_OWN: Final = ("/etc/ssh/", "/root/.ssh/")


class SshPlaybookKind(Kind[SshPlaybookModel]):
    """Roles applied to a host: when they, what they are told, or the host change, and in no other case."""

    resource = SshPlaybook
    #: Packages come from a mirror that may be slow.
    timeout_s = 1800.0

    def __init__(self, home: Home, run: Run = run_play, ask: Ask = ask) -> None:
        self._home, self._run, self._ask = home, run, ask

    def mistakes(self, wanted: SshPlaybookModel) -> Iterable[Mistake]:
        there = roles_there(Path(wanted.playbooks))
        if not there:
            yield Mistake("playbooks", f"{wanted.playbooks} has no folder `roles` with roles in it")
        elif unknown := sorted(set(wanted.roles) - there):
            yield Mistake(
                "roles", f"there is no role {', '.join(unknown)}; there are {', '.join(sorted(there))}"
            )
        if both := sorted(set(wanted.variables) & set(wanted.secrets)):
            yield Mistake("secrets", f"{', '.join(both)} is among the variables too")
        if wanted.connection.get("kind") != "host":
            yield Mistake("connection", "it is none of kind `host`, with address, user, key and known_hosts")
            return
        try:
            transport(wanted.connection, self._home.data)
        except ValueError as error:
            yield Mistake("connection", str(error))

    def derived(self, wanted: SshPlaybookModel) -> Mapping[str, Plain]:
        return {"digest": roles_digest(Path(wanted.playbooks), wanted.roles)}

    def create(self, wanted: SshPlaybookModel, task: Task) -> Made:
        self._apply(wanted, task)
        return Made(f"{wanted.connection['address']}:{int(wanted.connection.get('port', 22))}")

    def update(
        self, id: str, old: SshPlaybookModel, wanted: SshPlaybookModel, task: Task
    ) -> Mapping[str, Plain]:
        self._apply(wanted, task)
        return {}

    def delete(self, id: str, state: SshPlaybookModel, task: Task) -> None:
        """Leave what roles did, until the host is given back: `ssh_host` knows what was there before."""

    def _apply(self, wanted: SshPlaybookModel, task: Task) -> None:
        variables, files = dict(wanted.variables), dict[str, bytes]()
        if wanted.boot:
            parts = self._boot(wanted)
            variables |= _told(parts)
            files = {str(at): file.data for at, file in enumerate(_files(parts))}
        play = Play(
            Path(wanted.playbooks), tuple(wanted.roles), wanted.connection, variables, wanted.secrets, files
        )
        try:
            self._run(play, task, self._home.data / "plays")
        finally:
            # Whatever it came to: what it changed is ours to undo.
            self._note(wanted)

    def _boot(self, wanted: SshPlaybookModel) -> Boot[str]:
        try:
            return load_boot(boot_path(self._home, wanted.stack, wanted.boot))
        except FileNotFoundError:
            raise Refusal(
                f"the boot {wanted.boot} of stack {wanted.stack} is not there: `tidepool up --refresh` writes it anew"
            ) from None

    def _note(self, wanted: SshPlaybookModel) -> None:
        if not wanted.claim:
            return
        try:
            told = self._ask(wanted.connection, "note", {"key": dict(wanted.claim)}, CLAIM_S)
        except HostError as error:
            raise Refusal(
                f"what the play changed could not be noted, for it to be undone one day: {error}"
            ) from error
        if not told["noted"]:
            raise Refusal(
                f"{wanted.connection['address']} is not claimed by {wanted.claim['node']} any more: somebody gave it back"
            )


def _files(parts: Boot[str]) -> list[File[str]]:
    return [file for file in parts.files if not file.path.startswith(_HOSTS_OWN)]


def _told(parts: Boot[str]) -> Mapping[str, Any]:
    """A boot as the role `services` takes it. Mounts are variables: a boot's are of folders of this machine."""
    return {
        "tidepool_services": [
            {
                "name": service.name,
                "argv": list(service.argv),
                "user": service.user,
                "ready": service.ready,
                "begins": service.begins,
                "once": service.once,
                "stop_timeout_s": service.stop_timeout_s,
            }
            for service in parts.services
            if service.name != "sshd"  # it has one, or nobody would have come in
        ],
        "tidepool_files": [
            {
                "path": file.path,
                "src": f"{{{{ tidepool_files_folder }}}}/{at}",
                "mode": file.mode,
                "owner": file.owner,
                "group": file.group,
            }
            for at, file in enumerate(_files(parts))
        ],
        "tidepool_folders": [
            {"path": each.path, "mode": each.mode, "owner": each.owner, "group": each.group}
            for each in parts.folders
        ],
    }
