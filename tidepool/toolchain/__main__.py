"""`python -m tidepool.toolchain build|folder NAME`: what `make NAME` does, and where the tools are."""

from __future__ import annotations

import argparse
import os
import sys

from tidepool.toolchain import MODULES, CannotBuild, ToolchainError, build, find


def main(arguments: list[str] | None = None) -> int:
    """Do what the arguments say; gives the exit code: 0, 1 where it failed, 2 where they cannot be understood."""
    parser = argparse.ArgumentParser(
        prog="python -m tidepool.toolchain", description="Programs for this machine, built from Go modules."
    )
    parser.add_argument("verb", choices=["build", "folder"])
    parser.add_argument("name", choices=sorted(MODULES))
    parser.add_argument(
        "--where-possible",
        action="store_true",
        help="build: it is no failure where this machine has no fit Go, or cannot fetch the modules",
    )
    given = parser.parse_args(arguments)
    module = MODULES[given.name]

    def tell(line: str) -> None:
        sys.stderr.write(f"{module.name}: {line}\n")
        sys.stderr.flush()

    try:
        if given.verb == "build":
            build(os.environ, module, say=tell)
        else:
            sys.stdout.write(f"{find(os.environ, module).folder}\n")
    except CannotBuild as error:
        tell(str(error))
        return 0 if given.where_possible else 1
    except ToolchainError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
