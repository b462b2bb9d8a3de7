"""The keeper runs on a host, by any Python from 3.7 on, and needs nothing else: says what it has, claims it, gives it back.

    python3 -I - VERB JSON <`program`

facts    what the host has, and whose it is; changes nothing
claim    it is that node's from now on, under a lock; what was there before is kept beside the claim
note     remembers what playbooks changed since
release  all of that is undone, and the claim is gone

Each says JSON. A claim is a folder: `claim.json` whose it is, `before.json` what was there, `saved/` the bytes of what
playbooks may change, `note.json` what they changed. Every verb may be cut off anywhere, and called again.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

#: In this order: each imports those before it alone.
_PARTS: Final = ("listing", "store", "undoing", "roles", "main")
#: On a host there is no such package: each part is put where the others look for it.
_LOADER: Final = """
import sys, types
for name, text in PARTS.items():
    sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), sys.modules[name].__dict__)
sys.modules[name].main(sys.argv)
"""


def program() -> str:
    """All of it as one text, which is sent to a host each time: nothing of it stays there."""
    here = files(__name__)
    parts = {f"{__name__}.{part}": here.joinpath(f"{part}.py").read_text(encoding="utf-8") for part in _PARTS}
    return f"PARTS = {parts!r}{_LOADER}"
