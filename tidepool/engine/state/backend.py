"""A DIY backend, as Pulumi calls it: stacks, their state, locks, tags and history in a bucket that the Pulumi CLI shares.

The only part of the engine that writes there, but for the journal. Where a method changes a stack and says
nothing else, the caller holds the stack's lock (:meth:`DiyBackend.lock`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tidepool.engine import json_text
from tidepool.engine.errors import EngineError, NoSuchStack
from tidepool.engine.resource import MalformedCheckpoint, SecretsProvider, Snapshot
from tidepool.engine.state import files
from tidepool.engine.state.bucket import Bucket, Log
from tidepool.engine.state.checkpoint import (
    SCHEMA_VERSION,
    Crypter,
    decode_deployment,
    encode_untyped,
    manifest_of,
    unwrap_checkpoint,
    verify_supported,
    wrap_checkpoint,
)
from tidepool.engine.state.layout import (
    InvalidName,
    Layout,
    StackReference,
    verify_name,
    verify_version,
    write_version,
)
from tidepool.engine.state.location import open_bucket
from tidepool.engine.state.lock import StackLock
from tidepool.engine.state.references import IntegrityError, rename_deployment, verify_integrity
from tidepool.engine.state.store import (
    CheckpointStore,
    RawCheckpoint,
    StoreOptions,
    UpdateInfo,
    encode_update,
    read_tags,
    read_update,
    write_tags,
)

_HISTORY_SUFFIXES: Final = (".history.json", ".history.json.gz", ".history.json.zst")


class StackAlreadyExists(EngineError):
    """A stack of that name exists. The Automation API knows the text."""

    def __init__(self, ref: StackReference) -> None:
        super().__init__(f"stack '{ref.qualified}' already exists")


class StackHasResources(EngineError):
    """A stack that is to be removed still has resources."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"'{name}' still has resources; removal rejected. Possible actions:\n"
            f"- Make sure that '{name}' is the stack that you want to destroy\n"
            "- Run `pulumi destroy` to delete the resources, then run `pulumi stack rm`\n"
            "- Run `pulumi stack rm --force` to override this error"
        )


@dataclass(frozen=True, slots=True)
class StackSummary:
    """A stack in a list. ``last_update`` is RFC 3339; both are None where nothing was ever deployed."""

    ref: StackReference
    last_update: str | None
    resource_count: int | None


class DiyBackend:
    """State in ``bucket``; see :mod:`tidepool.engine.state.layout` for what lies where."""

    def __init__(
        self,
        bucket: Bucket,
        options: StoreOptions | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Open it; nothing is written yet. ``now`` gives the time, with its zone.

        Raises:
            EngineError: when its layout is not version 1.
        """
        self.bucket = bucket
        self.layout = Layout(bucket.root)
        self.options = options or StoreOptions()
        self._now = now
        self._store = CheckpointStore(bucket, self.layout, self.options)
        self._has_meta = verify_version(bucket, self.layout)

    @classmethod
    def from_url(cls, url: str, home: Path, cwd: Path, env: Mapping[str, str] | None = None) -> DiyBackend:
        """The backend that a URL names; ``env`` gives the ``PULUMI_DIY_BACKEND_*`` options, and the way to credentials.

        Errors as :func:`open_bucket` and the constructor.
        """
        return cls(open_bucket(url, home, cwd, env or {}), StoreOptions.from_env(env or {}))

    # -- stacks ---------------------------------------------------------------------------------------

    def references(self, project: str | None = None) -> list[StackReference]:
        """All stacks, or those of one project, by name; their files are not read."""
        projects = [project] if project else self.bucket.folders(self.layout.stacks)
        found: set[StackReference] = set()
        for folder in projects:
            for name in self.bucket.names(self.layout.stacks / folder):
                stem = name.removesuffix(files.GZIP).removesuffix(files.ZSTD)
                if stem.endswith(".json") and _is_name(folder) and _is_name(stem.removesuffix(".json")):
                    found.add(StackReference(folder, stem.removesuffix(".json")))
        return sorted(found)

    def stacks(self, project: str | None = None) -> list[StackSummary]:
        """All stacks, or those of one project, with what their files tell.

        Raises:
            CheckpointDamaged: when a stack's file cannot be read.
        """
        summaries: list[StackSummary] = []
        for ref in self.references(project):
            try:
                raw = self.read(ref)
            except NoSuchStack:
                continue  # removed since it was listed
            if raw is None:
                summaries.append(StackSummary(ref, None, None))
            else:
                last = (raw.deployment.get("manifest") or {}).get("time")
                known = last if last and not last.startswith("0001-") else None  # Go's zero time
                summaries.append(StackSummary(ref, known, raw.resource_count))
        return summaries

    def exists(self, ref: StackReference) -> bool:
        return self._store.find(ref) is not None

    def create(self, ref: StackReference, secrets_provider: SecretsProvider | None = None) -> None:
        """Make an empty stack, under its lock. ``secrets_provider`` is noted in it where given.

        Raises:
            StackAlreadyExists: when there is one.
            StackLocked: when somebody is at work on one of that name.
        """
        self._ensure_meta()
        with self.lock(ref):
            if self.exists(ref):
                raise StackAlreadyExists(ref)
            untyped: dict[str, Any] = {"version": SCHEMA_VERSION}
            if secrets_provider is not None:
                untyped["deployment"] = {
                    "manifest": manifest_of(self._now()),
                    "secrets_providers": {"type": secrets_provider.type, "state": secrets_provider.state},
                    "metadata": {},
                }
            self._store.write(ref, wrap_checkpoint(ref.qualified, untyped))

    def remove(self, ref: StackReference, force: bool = False, remove_backups: bool = False) -> None:
        """Remove a stack with its history and tags, under its lock. Its last file stays as ``.bak``.

        ``force`` removes one that still has resources: they are forgotten, not destroyed.

        Raises:
            NoSuchStack: when there is none.
            StackHasResources: when it has resources besides the stack itself, and no ``force``.
            StackLocked: when somebody is at work on it.
        """
        with self.lock(ref):
            path = self._store.find(ref)
            if path is None:
                raise NoSuchStack(ref.name)
            if not force and self._has_resources(ref):
                raise StackHasResources(ref.name)
            if not force:
                self._verify_recovered(ref, "removed")
            self._empty(self.layout.history(ref))
            self.bucket.remove(self.layout.tags(ref))
            self.journal(ref).clear()
            backup = path.with_name(path.name + ".bak")
            if remove_backups:
                self.bucket.remove(backup)
                self._empty(self.layout.backups(ref))
                self.bucket.remove(path)
            else:
                self.bucket.move(path, backup)

    def rename(self, ref: StackReference, new_ref: StackReference) -> None:
        """Rename a stack: its file and the URNs in it, its history, backups and tags; under both locks.

        Raises:
            NoSuchStack: when there is no stack ``ref``.
            EngineError: when there is a stack ``new_ref``, or an operation that was cut off is not recovered.
            StackLocked: when somebody is at work on either.
        """
        if ref == new_ref:
            raise EngineError(f"a stack named {new_ref.qualified} already exists")
        with self.lock(ref), self.lock(new_ref):
            if self.exists(new_ref):
                raise EngineError(f"a stack named {new_ref.qualified} already exists")
            self._verify_recovered(ref, "renamed")
            raw = self.read(ref)
            untyped: dict[str, Any] = {"version": SCHEMA_VERSION}
            if raw is not None:
                untyped = raw.untyped | {"deployment": rename_deployment(raw.deployment, ref, new_ref)}
            self._store.write(new_ref, wrap_checkpoint(new_ref.qualified, untyped))
            # From here on the new stack is whole; the old one goes last, so that a crash loses nothing.
            self._move_dated(self.layout.history(ref), self.layout.history(new_ref), ref, new_ref, "-")
            self._move_dated(self.layout.backups(ref), self.layout.backups(new_ref), ref, new_ref, ".")
            tags = self.layout.tags(ref)
            if self.bucket.copy(tags, self.layout.tags(new_ref)):
                self.bucket.remove(tags)
            self.journal(ref).clear()
            old = self._store.find(ref)
            if old is not None:
                self.bucket.move(old, old.with_name(old.name + ".bak"))

    # -- state ----------------------------------------------------------------------------------------

    def read(self, ref: StackReference) -> RawCheckpoint | None:
        """The stack's file with its secrets still encrypted; None where nothing was ever deployed.

        Errors as :meth:`CheckpointStore.read`; that of damage says which backup is usable.
        """
        return self._store.read(ref)

    def load(self, ref: StackReference, crypter: Crypter) -> Snapshot | None:
        """The stack's snapshot, None where nothing was ever deployed; its integrity verified.

        Raises:
            IntegrityError: when it contradicts itself.
            SecretsError: when its secrets cannot be decrypted.
            EngineError: as :meth:`read`.
        """
        raw = self.read(ref)
        if raw is None:
            return None

        def decoded(found: RawCheckpoint) -> Snapshot:
            snapshot = decode_deployment(found.deployment, crypter)
            verify_integrity(snapshot)
            return snapshot

        try:
            return decoded(raw)
        except IntegrityError as error:
            raise IntegrityError(
                f"snapshot integrity failure; refusing to use it: {error}\nIn the state of stack '{ref.name}', "
                f"{raw.location}. Repair it with `pulumi state repair` of the Pulumi CLI, or go back to a backup.\n"
                + self._store.way_back(ref, decoded)
            ) from error
        except MalformedCheckpoint as error:
            raise MalformedCheckpoint(
                f"{raw.location}: {error}\n{self._store.way_back(ref, decoded)}"
            ) from error

    def encode(self, ref: StackReference, snapshot: Snapshot, crypter: Crypter) -> bytes:
        """Return the content of the stack's file for ``snapshot``."""
        document = wrap_checkpoint(ref.qualified, encode_untyped(snapshot, crypter, self._now()))
        return json_text.dumps(document).encode("utf-8")

    def write(self, ref: StackReference, content: bytes) -> Path:
        """Make what :meth:`encode` gave the stack's state, durably, or leave the old one; returns the file's path.

        Raises:
            StorageError: when it cannot be written: the old state is still there.
        """
        self._ensure_meta()
        return self._store.write_content(ref, content)

    def set_aside(self, ref: StackReference, content: bytes) -> str:
        """Save what :meth:`encode` gave beside the journals, where it is nobody's state; returns the place, for people."""
        path = self.layout.journal(ref).with_name(f"{ref.name}.{time.time_ns()}.json")
        self.bucket.write(path, content)
        return self.bucket.location(path)

    def content(self, ref: StackReference) -> bytes | None:
        """Return the content of the stack's file, as :meth:`encode` gave it; None where there is none."""
        path = self._store.find(ref)
        return None if path is None else self.bucket.read(path)

    def export(self, ref: StackReference) -> dict[str, Any]:
        """The untyped deployment; "deployment" is None where nothing was ever deployed. Errors as :meth:`read`."""
        raw = self.read(ref)
        return {"version": SCHEMA_VERSION, "deployment": None} if raw is None else raw.untyped

    def import_(self, ref: StackReference, untyped: Mapping[str, Any], *, edited: bool = False) -> None:
        """Replace the stack's state, under its lock. Takes an export or a stack file (a backup, say).

        The present state is not read, so this is the way back from a damaged one. ``edited`` says that ``untyped``
        was made of it: then a journal that was left behind would not fit any more.

        Raises:
            EngineError: when it is ``edited``, and an operation that was cut off is not recovered.
            NoSuchStack: when there is no such stack.
            MalformedCheckpoint: when it is neither.
            UnsupportedCheckpoint: when it needs what this engine does not support.
            StackLocked: when somebody is at work on the stack.
        """
        document = unwrap_checkpoint(untyped) if "checkpoint" in untyped else dict(untyped)
        verify_supported(document)
        deployment = document.get("deployment")
        if deployment is not None and not isinstance(deployment, dict):
            raise MalformedCheckpoint("not an exported stack: 'deployment' is not an object")
        with self.lock(ref):
            if not self.exists(ref):
                raise NoSuchStack(ref.name)
            if edited:
                self._verify_recovered(ref, "edited")
            self._store.write(ref, wrap_checkpoint(ref.qualified, document))

    def journal(self, ref: StackReference) -> Log:
        """The journal of the operation that is, or was, under way."""
        return self.bucket.log(self.layout.journal(ref))

    def backup(self, location: str) -> bytes | None:
        """Return the copy of a stack's file that a message called ``location``; None where it is in no bucket of ours."""
        root = self.bucket.location(self.bucket.root).rstrip("/") + "/"
        if not location.startswith(root):
            return None
        return self.bucket.read(self.bucket.root / location.removeprefix(root))

    # -- locks ----------------------------------------------------------------------------------------

    def lock(self, ref: StackReference) -> StackLock:
        """A lock on the stack, not yet taken: use it in ``with``, or ``acquire`` and ``release`` it.

        After it was taken, its ``warnings`` tell of locks of dead processes that it took over.
        """
        return StackLock(self.bucket, self.layout.locks(ref), self._now)

    def break_locks(self, ref: StackReference) -> int:
        """Delete all locks of the stack, whoever holds them; returns how many. This is ``cancel``."""
        return self._empty(self.layout.locks(ref))

    # -- history and tags -----------------------------------------------------------------------------

    def history(self, ref: StackReference, page: int = 1, page_size: int = 0) -> list[UpdateInfo]:
        """The stack's updates, latest first. Pages count from 1; a ``page_size`` of 0 gives all.

        Raises:
            EngineError: when a file of the page is damaged, naming it.
        """
        folder = self.layout.history(ref)
        found = [name for name in self.bucket.names(folder) if name.endswith(_HISTORY_SUFFIXES)]
        found.reverse()  # names end in the time, so this is the order of time
        if page_size > 0:
            start = (max(page, 1) - 1) * page_size
            found = found[start : start + page_size]
        return [read_update(self.bucket, folder / name) for name in found]

    def add_history(self, ref: StackReference, update: UpdateInfo) -> None:
        """Note an update that ended, with a copy of the state after it, and keep a backup of the state."""
        extension = ".json" + (files.GZIP if self.options.gzip else "")
        prefix = f"{ref.name}-{time.time_ns()}"
        folder = self.layout.history(ref)
        content = json_text.dumps(encode_update(update)).encode("utf-8")
        self.bucket.write(folder / f"{prefix}.history{extension}", content, durable=False)
        state = self._store.find(ref)
        if state is None:
            return
        form = state.name.removeprefix(ref.name)
        self.bucket.copy(state, folder / f"{prefix}.checkpoint{form}")
        if self.options.backups:
            self.bucket.copy(state, self.layout.backups(ref) / f"{ref.name}.{time.time_ns()}{form}")

    def tags(self, ref: StackReference) -> dict[str, str]:
        """The stack's tags, by name.

        Raises:
            EngineError: when their file is damaged or of another version.
        """
        return read_tags(self.bucket, self.layout.tags(ref))

    def set_tag(self, ref: StackReference, name: str, value: str) -> None:
        write_tags(self.bucket, self.layout.tags(ref), self.tags(ref) | {name: value})

    def remove_tag(self, ref: StackReference, name: str) -> bool:
        """Remove one tag of the stack; returns whether it was there."""
        tags = self.tags(ref)
        if name not in tags:
            return False
        del tags[name]
        write_tags(self.bucket, self.layout.tags(ref), tags)
        return True

    def _ensure_meta(self) -> None:
        if not self._has_meta:
            write_version(self.bucket, self.layout)
            self._has_meta = True

    def _has_resources(self, ref: StackReference) -> bool:
        raw = self.read(ref)
        resources = (raw.deployment.get("resources") or []) if raw is not None else []
        return len(resources) > 1 or any(r.get("type") != "pulumi:pulumi:Stack" for r in resources)

    def _verify_recovered(self, ref: StackReference, change: str) -> None:
        journal = self.journal(ref)
        if journal.read():
            raise EngineError(
                f"stack '{ref.name}' cannot be {change}: its last operation was cut off, and its journal "
                f"{journal.location} is not recovered yet. Run `refresh` or `up` on it first"
            )

    def _empty(self, folder: Path) -> int:
        found = self.bucket.names(folder)
        for name in found:
            self.bucket.remove(folder / name)
        return len(found)

    def _move_dated(
        self, source: Path, target: Path, old: StackReference, new: StackReference, separator: str
    ) -> None:
        """Move files named STACK<separator>NUMBER...; others are left where they are."""
        pattern = re.compile(re.escape(old.name + separator) + r"(?=\d+\.)")
        for name in self.bucket.names(source):
            match = pattern.match(name)
            if match:
                self.bucket.move(source / name, target / f"{new.name}{separator}{name[match.end() :]}")


def _is_name(text: str) -> bool:
    try:
        verify_name("stack", text)
    except InvalidName:
        return False
    return True
