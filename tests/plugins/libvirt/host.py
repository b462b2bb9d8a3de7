"""A host that runs libvirt, to the plugin of the tests: by virsh, with the errors of the real plugin."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Final

from tests.plugins.libvirt.xml import Stored
from tidepool.resources.kind import Refusal

_NO_VOLUME: Final = "Storage volume not found"


@dataclass(frozen=True, slots=True)
class Host:
    """The host of ``uri``. It is waited for: on a machine with other work, the start of an emulator may take minutes."""

    uri: str

    def do(self, failed: str, *words: str, stdin: str = "") -> str:
        """Have virsh do it, and return what it said. Where it fails, the plugin says ``failed``, and libvirt's words."""
        said = self._virsh(*words, stdin=stdin)
        if said.returncode != 0:
            raise Refusal(f"{failed}: {_words_of(said.stderr)}")
        return said.stdout.strip()

    def list(self, verb: str, *options: str) -> frozenset[str]:
        """The names or ids that a verb such as ``net-list`` tells."""
        return frozenset(self.do("error asking libvirt", verb, *options).split())

    def volume(self, failed: str, name: str, pool: str = "") -> Stored:
        """The volume of that name in ``pool``; without a pool, of that key."""
        within = ("--pool", pool) if pool else ()
        told = ET.fromstring(self.do(failed, "vol-dumpxml", *within, name))
        path = told.findtext("target/path", "")
        format = told.find("target/format")
        return Stored(
            pool or self.do(failed, "vol-pool", path),
            told.findtext("name", ""),
            path,
            "" if format is None else format.get("type", ""),
            int(told.findtext("capacity", "0")),
        )

    def has_volume(self, key: str) -> bool:
        """Whether there is a volume of that key."""
        said = self._virsh("vol-name", key)
        if said.returncode != 0 and _NO_VOLUME not in said.stderr:
            raise Refusal(f"can't retrieve volume {key}: {_words_of(said.stderr)}")
        return said.returncode == 0

    def delete_volume(self, key: str) -> None:
        """Delete it; what is gone already is no error."""
        if self.has_volume(key):
            self.do(f"can't delete volume {key}", "vol-delete", key)

    def _virsh(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["virsh", "--quiet", "--connect", self.uri, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            # Its words are read.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )


def _words_of(stderr: str) -> str:
    """What libvirt said, behind what virsh says of itself."""
    first, _, libvirts = stderr.partition("\nerror: ")
    return " ".join((libvirts or first.removeprefix("error: ")).split())
