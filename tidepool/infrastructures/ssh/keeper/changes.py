"""Changes on a host since it was claimed, and what of them is to be undone. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidepool.infrastructures.ssh.keeper.paths import SAVED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    #: Kind, mode, owner, group; of a file its size and time, of a link what it leads to.
    Entry = list[Any]


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    old, new = before["files"], after["files"]
    return {
        "new": sorted(set(new) - set(old)),
        "changed": {
            path: new[path]
            for path in sorted(set(new) & set(old))
            if differ(old[path], new[path]) and restorable(path, old[path])
        },
        "gone": sorted(set(old) - set(new)),
        "packages": sorted(set(after["packages"]) - set(before["packages"])),
        "mounts": sorted(set(after["mounts"]) - set(before["mounts"])),
    }


def restorable(path: str, old: Entry) -> bool:
    """Return whether it can be as it was: of files whose bytes nobody kept, and of what runs, changes are the host's own."""
    return not is_below(path, ["/run"]) and (old[0] in "dl" or (old[0] == "f" and is_below(path, SAVED)))


def differ(old: Entry, new: Entry) -> bool:
    """Return whether two entries differ: of a folder, only in who has it, for its time is of those within."""
    return old[:4] != new[:4] if old[0] == new[0] == "d" else old != new


def is_below(path: str, tops: Iterable[str]) -> bool:
    """Return whether it is one of those, or below one."""
    return any(path == top or path.startswith(top + "/") for top in tops)


def merged(before: list[str], left: list[str], now: list[str]) -> list[str]:
    """The lines ``now`` without ours, which are in ``left`` and not in ``before``, and with all that others added since."""
    ours, known = set(left) - set(before), set(before)
    theirs = [line for line in now if line not in ours and line not in known]
    # What others took away stays away; what we changed of a line that was there is as it was.
    taken = {line for line in before if line in left and line not in now}
    return [line for line in before if line not in taken] + theirs


def in_order(services: Iterable[str]) -> list[str]:
    """As they are ended: what others stand on goes last."""
    last = ("tidepool-munged", "tidepool-prepare", "tidepool-firewall")
    return sorted(services, key=lambda name: (name.startswith(last), name.startswith(last[1:]), name))


def others_purged(simulated: str, packages: list[str]) -> list[str]:
    """Return the packages that would go as well, by what apt-get says of a purge of ``packages``."""
    would = set(re.findall(r"(?m)^Purg (\S+)", simulated))
    return sorted(would - {name.partition(":")[0] for name in packages} - {*packages})
