"""``python -m tidepool.engine ARGS``: the verbs of the Pulumi CLI, done by the embedded engine."""

import os
import sys
from pathlib import Path

from tidepool.engine.command import main

if __name__ == "__main__":
    person = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    sys.exit(main(sys.argv[1:], Path.cwd(), os.environ, sys.stdout, sys.stderr, person, owns_process=True))
