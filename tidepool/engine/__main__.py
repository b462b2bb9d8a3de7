"""``python -m tidepool.engine ARGS``: the verbs of the Pulumi CLI, done by the embedded engine."""

import gc
import os
import sys
from pathlib import Path

from tidepool.engine.command import end_process, main

if __name__ == "__main__":
    # An operation makes many objects and few cycles: the collector's defaults take a fifth of its time.
    gc.set_threshold(400_000, 20, 1000)
    # Connections end whenever plugins do; gRPC would tell the person of each.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    person = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    code = main(sys.argv[1:], Path.cwd(), os.environ, sys.stdout, sys.stderr, person, owns_process=True)
    end_process(code)
