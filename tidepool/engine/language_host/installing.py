"""The CLI and its hosts beside each other, in the environment of this Python: there the CLI looks for them.

The CLI itself is the same file as in the folder that it was built into, where that is on the same file system.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import tidepool
from tidepool.engine.choice import BUILT, HOST

EXECUTOR: Final = "pulumi-language-python-exec"
_LAUNCHER: Final = """#!/bin/sh
# Runs Python programs for the `pulumi` beside it: tidepool/engine/language_host.
exec {python} -I -c {code} --executor "$(dirname "$0")/{executor}" "$@"
"""
_CODE: Final = """\
import sys
sys.path.insert(0, {root!r})
from tidepool.engine.language_host.__main__ import main
sys.exit(main())"""


def install(store: Path, place: Path = BUILT) -> Path:
    """Install what is in the folder ``store``; gives the CLI. Each file is there whole, or as it was before."""
    folder = place / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pulumi", EXECUTOR, "pulumi-resource-pulumi-python"):
        _link(store / name, folder / name)
    code = _CODE.format(root=str(Path(tidepool.__path__[0]).parent))
    launcher = _LAUNCHER.format(python=shlex.quote(sys.executable), code=shlex.quote(code), executor=EXECUTOR)
    written = folder / f"{HOST}.{os.getpid()}"
    written.write_text(launcher)
    written.chmod(0o755)
    written.replace(folder / HOST)
    return folder / "pulumi"


def _link(file: Path, target: Path) -> None:
    made = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        os.link(file, made)
    except OSError:  # another file system, or one without links
        shutil.copy2(file, made)
    if target.exists() and target.samefile(made):
        made.unlink()  # to rename one link of a file to another does nothing
    else:
        made.replace(target)
