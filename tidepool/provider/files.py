"""tidepool:files:Policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidepool.clients.files.homes import FilesError, FilesService, Home, HomeFolder, Homes
from tidepool.clients.transport import ClientError
from tidepool.infrastructures.connection import transport
from tidepool.infrastructures.file_systems import home_folder
from tidepool.provider.machines import connection_mistakes, machine_is_gone
from tidepool.resources.files import FilePolicy, FilePolicyModel
from tidepool.resources.kind import AS_KNOWN, IdempotentKind, Made, Task, Unfinished
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain

_BLOCK: Final = 1024
#: How often homes are counted and scratch is wiped, unless that takes long.
_EVERY_S: Final = 600


class FilePolicyKind(IdempotentKind[FilePolicyModel]):
    """Quotas on the file system, and the policy of the service on the controller."""

    resource = FilePolicy
    timeout_s = 3600.0

    def mistakes(self, wanted: FilePolicyModel) -> Iterable[Mistake]:
        machines = {"controller": wanted.controller, **({"server": wanted.server} if wanted.server else {})}
        yield from connection_mistakes(machines, self._home.data)

    def create(self, wanted: FilePolicyModel, task: Task) -> Made:
        made = Made(f"{wanted.scope}{wanted.home}", {"quotasAre": "none"})
        try:
            homes = self._set(wanted, wanted.quota, wanted.quotas, task)
            is_watched = _has_quotas(wanted) and not homes.is_enforced
            if _has_quotas(wanted):
                made = Made(made.id, {"quotasAre": "watched" if is_watched else "enforced"})
                self._tell(wanted, homes, task)
            service = self._service(wanted)
            # Of quotas that are enforced there is nothing for it to do.
            if is_watched or wanted.scratch or service.policy() is not None:
                service.write_policy(_policy(wanted, is_watched))
        except FilesError as error:
            raise Unfinished(made.id, str(error), made.outputs) from error
        return made

    def look(self, id: str, state: FilePolicyModel) -> Mapping[str, Plain] | None:
        try:
            homes, policy = self._homes(state).read(), self._service(state).policy()
        except ClientError:
            # What cannot be seen is not gone.
            return None if machine_is_gone(state.controller, self._home.data) else AS_KNOWN
        is_watched = _has_quotas(state) and not homes.is_enforced
        if policy is None and (is_watched or state.scratch):
            return None
        quotas = dict(state.quotas)
        if _has_quotas(state) and homes.is_enforced:
            for each in _named(state, homes):
                wanted = -(-state.quotas.get(each.name, state.quota) // _BLOCK) * _BLOCK
                if each.quota != wanted or not each.is_whole:
                    quotas[each.name] = (each.quota or 0) if each.is_whole else 0
        found: dict[str, tuple[Any, Any]] = {
            "quotas": (dict(state.quotas), quotas),
            "scratch": (dict(state.scratch), _scratch_of(policy or {})),
        }
        return {key: now for key, (known, now) in found.items() if known != now}

    def delete(self, id: str, state: FilePolicyModel, task: Task) -> None:
        if machine_is_gone(state.controller, self._home.data):
            return
        self._set(state, 0, {}, task)
        self._service(state).write_policy({})

    def _set(self, wanted: FilePolicyModel, default: int, quotas: Mapping[str, int], task: Task) -> Homes:
        task.status("homes are given their quotas")
        return self._homes(wanted).set_quotas(default, quotas)

    def _tell(self, wanted: FilePolicyModel, homes: Homes, task: Task) -> None:
        if not homes.is_enforced:
            task.warn(
                f"quotas of {wanted.home} are watched and not enforced: {homes.why}; {homes.remedy}. `tidepool quota` shows who "
                "is over theirs"
            )
        if torn := sorted(each.name for each in _named(wanted, homes) if not each.is_whole):
            task.warn(
                f"not all in the homes of {', '.join(torn)} could be put below their quota; the next `up` tries again"
            )
        there = {each.name for each in homes.homes}
        if missing := sorted({*wanted.quotas} - there):
            task.warn(f"there are quotas of {', '.join(missing)}, who have no folder in {wanted.home}")

    def _homes(self, state: FilePolicyModel) -> HomeFolder:
        folder = state.served_from or state.home
        return home_folder(state.server or state.controller, self._home.data, folder, state.scope)

    def _service(self, state: FilePolicyModel) -> FilesService:
        return FilesService(transport(state.controller, self._home.data))


def _has_quotas(state: FilePolicyModel) -> bool:
    return bool(state.quota or any(state.quotas.values()))


def _named(state: FilePolicyModel, homes: Homes) -> tuple[Home, ...]:
    """Return the homes that it says a quota of; others are the site's to limit."""
    return tuple(each for each in homes.homes if state.quota or each.name in state.quotas)


def _policy(wanted: FilePolicyModel, is_watched: bool) -> dict[str, Any]:
    """Return what the service works by: `tidepool.clients.files.files_service`."""
    return {
        "home": wanted.home,
        "count_home": is_watched,
        "scratch": wanted.scratch.get("path"),
        "wipe_after_days": wanted.scratch.get("wipe_after_days", 0),
        "warn_days": wanted.scratch.get("warn_days", 0),
        "every_s": _EVERY_S,
    }


def _scratch_of(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scratch that a policy is of."""
    if not policy.get("scratch"):
        return {}
    return {
        "path": policy["scratch"],
        "wipe_after_days": policy["wipe_after_days"],
        "warn_days": policy["warn_days"],
    }
