"""The objects of a stack: its checkpoint, found, read, told damaged from whole, written and backed up; its tags; its past updates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, Final

from tidepool.engine import json_text
from tidepool.engine.errors import EngineError, NoSuchStack, NotSupportedError
from tidepool.engine.resource import MalformedCheckpoint
from tidepool.engine.state import files
from tidepool.engine.state.bucket import Bucket
from tidepool.engine.state.checkpoint import unwrap_checkpoint
from tidepool.engine.state.layout import Layout, StackReference


@dataclass(frozen=True, slots=True)
class UpdateInfo:
    """One update. Times are seconds since 1970.

    ``kind`` is "update", "refresh", "destroy", "import" or "rename"; ``result`` is "succeeded" or "failed".
    ``config`` maps full keys to their text, or to ``{"secure": CIPHERTEXT}``; ``resource_changes`` maps
    operations (``create``, ``same``, ...) to how many there were.
    """

    kind: str
    start_time: int
    end_time: int
    result: str
    message: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    resource_changes: Mapping[str, int] = field(default_factory=dict)
    version: int = 0


def encode_update(update: UpdateInfo) -> dict[str, Any]:
    """The JSON form, keys in Go's order."""
    out: dict[str, Any] = {
        "kind": update.kind,
        "startTime": update.start_time,
        "message": update.message,
        "environment": dict(sorted(update.environment.items())),
        "config": dict(sorted(update.config.items())),
        "version": update.version,
        "result": update.result,
        "endTime": update.end_time,
    }
    if update.resource_changes:
        out["resourceChanges"] = dict(sorted(update.resource_changes.items()))
    return out


def decode_update(raw: Mapping[str, Any]) -> UpdateInfo:
    """The update that its JSON form tells of."""
    return UpdateInfo(
        kind=raw["kind"],
        start_time=raw.get("startTime") or 0,
        end_time=raw.get("endTime") or 0,
        result=raw.get("result") or "",
        message=raw.get("message") or "",
        environment=raw.get("environment") or {},
        config=raw.get("config") or {},
        resource_changes=raw.get("resourceChanges") or {},
        version=raw.get("version") or 0,
    )


def read_update(bucket: Bucket, path: Path) -> UpdateInfo:
    """The update that the file ``path`` tells of.

    Raises:
        EngineError: when it is damaged, naming it.
    """
    try:
        return decode_update(json_text.loads(bucket.read(path)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(
            f"reading history file {bucket.location(path)}: {error}. Remove the file to see the rest of the history"
        ) from error


_VERSION: Final = 1


def read_tags(bucket: Bucket, path: Path) -> dict[str, str]:
    """The tags in ``path``, by name; none where there is no such file.

    Raises:
        EngineError: when the file is damaged or of another version.
    """
    try:
        raw = json_text.loads(bucket.read(path))
    except FileNotFoundError:
        return {}
    except json_text.JsonDamage as error:
        raise EngineError(
            f"the stack's tags are damaged: {bucket.location(path)}: {error}. Remove the file"
        ) from error
    version = raw.get("version") if isinstance(raw, dict) else None
    if version != _VERSION:
        raise EngineError(
            f"unsupported stack tags version: {version} (expected {_VERSION}) in {bucket.location(path)}"
        )
    return dict(sorted((raw.get("tags") or {}).items()))


def write_tags(bucket: Bucket, path: Path, tags: Mapping[str, str]) -> None:
    """Make ``tags`` what ``path`` holds; without tags there is no file."""
    if not tags:
        bucket.remove(path)
        return
    content = {"version": _VERSION, "tags": dict(sorted(tags.items()))}
    bucket.write(path, json_text.dumps(content).encode("utf-8"))


_EXTENSIONS: Final = ("", files.GZIP, files.ZSTD)


class CheckpointDamaged(EngineError):
    """A stack file cannot be read. The text names the file, the place, and the way back."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of writing, which the CLI reads from the ``PULUMI_DIY_BACKEND_*`` variables."""

    gzip: bool = False
    #: Keep a dated copy beside the stack file at every save.
    retain_checkpoints: bool = False
    #: Keep a copy of the stack file after each update.
    backups: bool = True

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> StoreOptions:
        """Read the options from the environment.

        Raises:
            NotSupportedError: when it asks for zstd or the legacy layout.
        """
        if _is_set(env, "ZSTD"):
            raise NotSupportedError("compressing state with zstd (PULUMI_DIY_BACKEND_ZSTD)")
        if _is_set(env, "LEGACY_LAYOUT"):
            raise NotSupportedError("the legacy state layout (PULUMI_DIY_BACKEND_LEGACY_LAYOUT)")
        return cls(
            gzip=_is_set(env, "GZIP"),
            retain_checkpoints=_is_set(env, "RETAIN_CHECKPOINTS"),
            backups=not _is_set(env, "DISABLE_CHECKPOINT_BACKUPS"),
        )


@dataclass(frozen=True, slots=True)
class RawCheckpoint:
    """A stack file as it was read: JSON values, secrets still encrypted. ``untyped`` is what ``stack export`` prints."""

    #: Where it is, for people.
    location: str
    untyped: dict[str, Any]

    @property
    def deployment(self) -> dict[str, Any]:
        """The snapshot, a ``DeploymentV3``."""
        deployment: dict[str, Any] = self.untyped["deployment"]
        return deployment

    @property
    def resource_count(self) -> int:
        """The number of resources in the deployment, older states of replaced ones included."""
        return len(self.deployment.get("resources") or ())


class CheckpointStore:
    """The stack files in one bucket."""

    def __init__(self, bucket: Bucket, layout: Layout, options: StoreOptions) -> None:
        """``options`` say how to write; all forms are read but zstd."""
        self._bucket = bucket
        self._layout = layout
        self._options = options

    def find(self, ref: StackReference) -> Path | None:
        """The stack's file: the one written last where there is a compressed one beside a plain one."""
        plain = self._layout.checkpoint(ref)
        forms = {plain.name + extension for extension in _EXTENSIONS}
        found = [each for each in self._bucket.dated(plain.parent, plain.name) if each[1] in forms]
        return plain.with_name(max(found)[1]) if found else None

    def read(self, ref: StackReference) -> RawCheckpoint | None:
        """The stack's file, None where nothing was ever deployed.

        Raises:
            NoSuchStack: when there is no such stack.
            CheckpointDamaged: when the file is not a checkpoint.
            StorageError: when it cannot be read.
            UnsupportedCheckpoint: when it needs what this engine does not support.
        """
        path = self.find(ref)
        if path is None:
            raise NoSuchStack(ref.name)
        try:
            return read_checkpoint(self._bucket, path)
        except FileNotFoundError:
            raise NoSuchStack(ref.name) from None
        except (json_text.JsonDamage, MalformedCheckpoint, files.ContentDamaged) as error:
            raise CheckpointDamaged(self._damage(ref, path, error)) from error

    def write(self, ref: StackReference, document: dict[str, Any]) -> Path:
        """Save ``document`` (a checkpoint), keeping what was there as ``.bak``; returns the file's path.

        Raises:
            StorageError: when it cannot be written; what was there is still there.
        """
        return self.write_content(ref, json_text.dumps(document).encode("utf-8"))

    def write_content(self, ref: StackReference, content: bytes) -> Path:
        """Save a checkpoint that is encoded already; otherwise as :meth:`write`."""
        plain = self._layout.checkpoint(ref)
        target = plain.with_name(plain.name + (files.GZIP if self._options.gzip else ""))
        old = self.find(ref)
        if old is not None:
            self._bucket.copy(old, old.with_name(old.name + ".bak"))
            self._bucket.remove_unfinished(target)  # .bak's as well: its name begins with the target's
        self._bucket.write(target, content)
        if old is not None and old != target:
            self._bucket.remove(old)
        if self._options.retain_checkpoints:
            self._bucket.write(target.with_name(f"{target.name}.{time.time_ns()}"), content, durable=False)
        return target

    def backup_names(self, ref: StackReference) -> Iterator[Path]:
        """All copies of the stack's file that are kept, the latest first."""
        plain = self._layout.checkpoint(ref)
        history = self._layout.history(ref)
        dated = [
            *(self._dated(plain.parent, plain.name, [f"{plain.name}{each}.bak" for each in _EXTENSIONS])),
            *(self._dated(self._layout.backups(ref))),
            *(each for each in self._dated(history) if ".checkpoint.json" in each[1].name),
        ]
        for _, path in sorted(dated, reverse=True):
            yield path

    def _dated(
        self, folder: Path, prefix: str = "", of: Sequence[str] | None = None
    ) -> list[tuple[int, Path]]:
        found = self._bucket.dated(folder, prefix)
        return [(when, folder / name) for when, name in found if of is None or name in of]

    def way_back(self, ref: StackReference, verify: Callable[[RawCheckpoint], object] = bool) -> str:
        """Return lines that name the newest usable backup and how to take it; ``verify`` raises where one is no use."""
        for backup in self.backup_names(ref):
            try:
                found = read_checkpoint(self._bucket, backup)
                if found is None:
                    continue
                verify(found)
            except (ValueError, OSError, EngineError):
                continue  # damaged as well, or in a form that is not ours: the one before it may do
            place = self._bucket.location(backup)
            when = (found.deployment.get("manifest") or {}).get("time", "an unknown time")
            return (
                f"The newest usable backup is {place} ({found.resource_count} resources, of {when}). "
                "Go back to it, and compare it with what really exists, with:\n"
                f"  python -m tidepool.engine stack import --stack {ref.name} --file {quote(place)}\n"
                f"  python -m tidepool.engine refresh --stack {ref.name}"
            )
        return "There is no usable backup of it."

    def _damage(self, ref: StackReference, path: Path, error: Exception) -> str:
        return f"the state of stack '{ref.name}' is damaged, nothing was changed: {self._bucket.location(path)}: {error}\n{self.way_back(ref)}"


def read_checkpoint(bucket: Bucket, path: Path) -> RawCheckpoint | None:
    """The checkpoint in ``path``, None where it holds no deployment.

    Raises:
        FileNotFoundError: when there is no such file.
        JsonDamage: when it is not JSON.
        MalformedCheckpoint: when it is JSON of another kind.
        StorageError: when it cannot be read.
        UnsupportedCheckpoint: when it needs what this engine does not support.
    """
    untyped = unwrap_checkpoint(json_text.loads(bucket.read(path)))
    return RawCheckpoint(bucket.location(path), untyped) if untyped["deployment"] is not None else None


def _is_set(env: Mapping[str, str], name: str) -> bool:
    # The CLI knows each of these by an older name as well.
    for prefix in ("PULUMI_DIY_BACKEND_", "PULUMI_SELF_MANAGED_STATE_"):
        value = env.get(prefix + name)
        if value is not None:
            return value.lower() in ("1", "true")
    return False
