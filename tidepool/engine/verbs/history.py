"""``stack history``: the past updates of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidepool.engine.arguments import World
from tidepool.engine.config import Decrypt, Value, from_document, is_object, is_secure, text_of
from tidepool.engine.errors import EngineError
from tidepool.engine.json_text import sorted_keys
from tidepool.engine.state.records import UpdateInfo
from tidepool.engine.verbs.showing import ago, json_document, time_text
from tidepool.engine.verbs.workspace import open_workspace

#: What stands for a value that cannot be decrypted, with a salt that was changed since, say.
_UNREADABLE = "ERROR_UNABLE_TO_DECRYPT"


@dataclass(frozen=True, slots=True)
class History:
    """``stack history``. A ``page_size`` of 0 shows all."""

    stack: str = ""
    json: bool = False
    output: str = "default"
    show_secrets: bool = False
    full_dates: bool = False
    page: int = 1
    page_size: int = 10

    def run(self, world: World) -> int:
        """Show the past updates, the latest first."""
        workspace = open_workspace(world)
        ref = workspace.require(self.stack or None)
        updates = workspace.backend.history(ref, max(self.page, 1), max(self.page_size, 0))
        if self.json or self.output == "json":
            decrypt: Decrypt | None = None
            if self.show_secrets:
                workspace.require_project()
                opened = workspace.open(ref)

                def decrypt(text: str) -> str:
                    return opened.crypter().decrypt(text)

            world.stdout.write(json_document([_document(u, decrypt) for u in updates]))
            return 0
        if not updates:
            never = "Stack has never been updated"
            world.say(f"No stack updates found on page '{self.page}'" if self.page > 1 else never)
        for update in updates:
            world.stdout.write(self._text(update))
        return 0

    def _text(self, update: UpdateInfo) -> str:
        changes = update.resource_changes
        counts = "".join(
            f"{sign}{changes.get(op, 0)}"
            for sign, op in (("+", "create"), ("-", "delete"), ("~", "update"), (" ", "same"))
        )
        start = datetime.fromtimestamp(update.start_time, UTC)
        when = f"{start:%Y-%m-%d %H:%M:%S} +0000 UTC" if self.full_dates else ago(start, datetime.now(UTC))
        lines = [
            f"Version: {update.version}",
            f"UpdateKind: {update.kind}",
            f"Status: {update.result}",
            f"Message: {update.message}",
            f"{counts} Updated {when} took {_duration(update.end_time - update.start_time)}",
            *(f"    {k}: {v}" for k, v in sorted(update.environment.items()) if v.strip()),
            "",
        ]
        return "".join(f"{line}\n" for line in lines)


def _document(update: UpdateInfo, decrypt: Decrypt | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "version": update.version,
        "kind": update.kind,
        "startTime": time_text(datetime.fromtimestamp(update.start_time, UTC)),
        "message": update.message,
        "environment": dict(sorted(update.environment.items())),
        "config": {k: _config_item(from_document(v), decrypt) for k, v in sorted(update.config.items())},
    }
    if update.result:
        document["result"] = update.result
    if update.result != "in-progress":
        document["endTime"] = time_text(datetime.fromtimestamp(update.end_time, UTC))
        document["resourceChanges"] = dict(sorted(update.resource_changes.items()))
    return document


def _config_item(value: Value, decrypt: Decrypt | None) -> Mapping[str, Any]:
    item: dict[str, Any] = {}
    if not is_secure(value):
        item.update(shown_value(value, str))
    elif decrypt is not None:
        try:
            item.update(shown_value(value, decrypt))
        except EngineError:
            item["value"] = _UNREADABLE
    return {**item, "secret": is_secure(value)}


def shown_value(value: Value, decrypt: Decrypt) -> dict[str, Any]:
    """A configuration value in JSON answers: its text, and the object where it is one."""
    from tidepool.engine.config import decrypted

    item: dict[str, Any] = {"value": text_of(value, decrypt)}
    if is_object(value):
        item["objectValue"] = sorted_keys(decrypted(value, decrypt))
    return item


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
