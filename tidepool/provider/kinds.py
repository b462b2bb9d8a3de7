"""All kinds of resources, by their tokens. Each is imported when it is asked for, or shortly before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from typing import Final

from tidepool.provider.kind import AnyKind, Home

_CLASSES: Final = {
    "tidepool:image:Image": ("image", "ImageKind"),
    "tidepool:keys:MungeKey": ("keys", "MungeKeyKind"),
    "tidepool:keys:SshKey": ("keys", "SshKeyKind"),
    "tidepool:local:Network": ("network", "NetworkKind"),
    "tidepool:local:Volume": ("volume", "VolumeKind"),
    "tidepool:local:Boot": ("boot", "BootKind"),
    "tidepool:local:Machine": ("machine", "MachineKind"),
    "tidepool:slurm:Configuration": ("configuration", "ConfigurationKind"),
    "tidepool:slurm:Slots": ("slots", "SlotsKind"),
    "tidepool:slurm:Node": ("node", "NodeKind"),
}
TOKENS: Final = frozenset(_CLASSES)


class Kinds:
    """The kinds of one provider process, whose resources are kept at ``home``."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._made: dict[str, AnyKind] = {}

    def of(self, token: str) -> AnyKind:
        """The kind of that token.

        Raises:
            KeyError: there is none.
        """
        module, name = _CLASSES[token]
        with self._lock:
            if token not in self._made:
                make: Callable[[Home], AnyKind] = getattr(import_module(f"tidepool.provider.{module}"), name)
                self._made[token] = make(self._home)
            return self._made[token]


def import_ahead() -> None:
    """Import all kinds in a thread: the program that will ask for them has its own imports to do meanwhile."""
    threading.Thread(target=_import_all, name="imports", daemon=True).start()


def _import_all() -> None:
    for module, _ in _CLASSES.values():
        try:
            import_module(f"tidepool.provider.{module}")
        except ImportError:
            return  # told to who asks for it
