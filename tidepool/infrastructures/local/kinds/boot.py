"""tidepool:local:Boot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidepool.infrastructures.local.kernel.errors import explained
from tidepool.infrastructures.local.kernel.spec import is_name
from tidepool.infrastructures.local.kinds.boot_parts import BootParts, load_parts, read_parts
from tidepool.infrastructures.local.kinds.volume import NAME_RULE, remove_if_empty
from tidepool.resources.difference import Rules
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Plain


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the inputs say."""

    stack: str
    boot: str
    parts: BootParts


class BootKind(Kind[Wanted]):
    """A file ``<data>/<stack>/boots/<name>.json``, which machines are booted by."""

    token = "tidepool:local:Boot"  # noqa: S105 - a type of resource
    keys = frozenset(
        {"stack", "boot", "services", "files", "folders", "mounts", "capabilities", "devices", "containers"}
    )
    rules = Rules(replaces=frozenset({"stack", "boot"}))

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, reader: Reader) -> Wanted:
        return Wanted(reader.text("stack"), reader.text("boot"), read_parts(reader))

    def mistakes(self, wanted: Wanted) -> Iterable[Mistake]:
        for key, name in (("stack", wanted.stack), ("boot", wanted.boot)):
            if not is_name(name):
                yield Mistake(key, f"it is {name!r}; {NAME_RULE}")
        if error := wanted.parts.mistakes():
            for line in str(error).splitlines():
                yield Mistake("", line.removeprefix("machine 'boot': "))

    def create(self, wanted: Wanted, task: Task) -> Made:
        self._save(wanted)
        return Made(f"{wanted.stack}/{wanted.boot}")

    def update(self, id: str, old: Wanted, wanted: Wanted, task: Task) -> Mapping[str, Plain]:
        self._save(wanted)
        return {}

    def look(self, id: str, state: Wanted) -> Mapping[str, Plain] | None:
        try:
            there = load_parts(boot_path(self._home, state.stack, state.boot))
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return None  # gone, or no longer what this version reads: it is written anew
        # What is otherwise may be a key, and is not worth showing: it is written anew as well.
        return AS_KNOWN if there == state.parts else None

    def delete(self, id: str, state: Wanted, task: Task) -> None:
        path = boot_path(self._home, state.stack, state.boot)
        with explained(f"boot {id} could not be deleted"):
            path.unlink(missing_ok=True)
            path.with_suffix(".new").unlink(missing_ok=True)
            remove_if_empty(path.parent, below=self._home.data)

    def _save(self, wanted: Wanted) -> None:
        with explained(f"boot {wanted.boot} of stack {wanted.stack} could not be written"):
            wanted.parts.save(boot_path(self._home, wanted.stack, wanted.boot))


def boot_path(home: Home, stack: str, boot: str) -> Path:
    """Where a boot is kept."""
    return home.data / stack / "boots" / f"{boot}.json"
