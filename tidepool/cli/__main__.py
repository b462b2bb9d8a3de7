"""The program `tidepool`, also as ``python -m tidepool.cli``."""

import gc
import os
import sys


def main() -> None:
    """Carry out this process's command line, and end it."""
    if sys.argv[1:2] == ["power-up"] or sys.argv[1:2] == ["power-down"]:
        # slurmctld waits for it: nothing else is imported.
        from tidepool.scaling.power.request import run

        sys.exit(run([sys.argv[1].removeprefix("power-"), *sys.argv[2:]]))
    # An operation makes many objects and few cycles: with the collector's defaults a spec of a thousand users takes twice as long.
    gc.set_threshold(100_000, 50, 1000)
    from tidepool.cli.context import Context
    from tidepool.cli.main import PROGRAM, cli

    try:
        cli.main(prog_name=PROGRAM, obj=Context.of_process())
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
        # All is said: what is left is to take apart, one by one, what the kernel frees at once.
        os._exit(code)


if __name__ == "__main__":
    main()
