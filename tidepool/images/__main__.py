"""`python -m tidepool.images lock|build|export FOLDER`: what a person does with an image by itself."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import get_args

from tidepool.images import (
    Form,
    ImageError,
    ImageStore,
    Machine,
    Progress,
    build,
    buildable,
    default_folder,
    export,
    read_source,
    write_lock,
)
from tidepool.images.store import LOCK_FILE


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say; gives the exit code: 0, 1 where it failed, 2 where they cannot be understood."""
    parser = argparse.ArgumentParser(prog="python -m tidepool.images", description="Golden images.")
    parser.add_argument("verb", choices=["lock", "build", "export"])
    parser.add_argument("folder", type=Path, help="the folder of recipe.yaml, such as images/debian-12")
    parser.add_argument("--form", choices=get_args(Form), default="tar", help="for export (default: tar)")
    parser.add_argument("--playbooks", type=Path, default=Path("playbooks"), help="the folder of roles/")
    parser.add_argument("--store", type=Path, help="where images are kept (default: the XDG data folder)")
    given = parser.parse_args(arguments)
    store = ImageStore((given.store or default_folder(os.environ)).absolute())
    machine = Machine(dict(os.environ))
    try:
        if given.verb == "lock":
            write_lock(given.folder, given.playbooks, store, machine)
            _say(str(given.folder / LOCK_FILE))
            return 0
        source = read_source(
            given.folder,
            given.playbooks.absolute(),
            architecture=machine.architecture(),
            environment=machine.environment,
        )
        found = buildable(source, store, machine, observe=_show)
        if found.note:
            sys.stderr.write(f"{found.note}\n")
        image = build(found.source, store, machine, observe=_show)
        if given.verb == "build":
            _say(str(image.root))
        else:
            file = export(image, given.form, store, machine, observe=_show)
            _say(f"{file.sha256}  {file.path}")
    except ImageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _show(progress: Progress) -> None:
    sys.stderr.write(f"{progress.phase} {progress.fraction:4.0%} {progress.text}\n")


if __name__ == "__main__":
    sys.exit(main())
