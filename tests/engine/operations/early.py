"""``python -m tidepool.engine``, interrupted before the operation has begun anything."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from tidepool.engine.command import main
from tidepool.engine.providers.loading import PluginLoader


async def interrupted(*_: Any) -> None:
    """In place of starting plugins, which comes first."""
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()


with mock.patch.object(PluginLoader, "start_ahead", interrupted):
    sys.exit(main(sys.argv[1:], Path.cwd(), os.environ, sys.stdout, sys.stderr, False, owns_process=True))
