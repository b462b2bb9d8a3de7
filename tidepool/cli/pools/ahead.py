"""What an operation needs in any case, begun while it is not known yet whether there will be one: on other processors."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

from tidepool.cli.stack import Stack

#: What the program and the engine import.
_MODULES: Final = (
    "pulumi",
    "tidepool.components",
    "tidepool.cluster.spec_reading",
    "tidepool.engine.running",
)
_PLUGINS: Final = ("tidepool",)


@contextmanager
def ahead(stack: Stack) -> Iterator[Callable[[], Mapping[str, str]]]:
    """Import, start the plugin, and derive the key of the secrets, side by side; the plugin ends with it.

    Gives what waits for that, and says what to add to the operation's environment. What goes wrong here is not told: the
    operation does it again, and tells.
    """
    from tidepool.engine.errors import EngineError
    from tidepool.engine.providers.standing import StandingPlugins

    found: dict[str, str] = {}
    with StandingPlugins(stack.project, _PLUGINS, stack.environment) as plugins:

        def start() -> None:
            try:
                found.update(plugins.ready())
            except EngineError:
                pass

        beside = [threading.Thread(target=work) for work in (start, lambda: _derive_key(stack))]
        for thread in beside:
            thread.start()
        for name in _MODULES:
            import_module(name)

        def known() -> Mapping[str, str]:
            for thread in beside:
                thread.join()
            return found

        yield known


def _derive_key(stack: Stack) -> None:
    """It takes a third of a second; whoever needs it later in this process has it then."""
    from tidepool.cli.scaler.stack_door import checkpoint_of
    from tidepool.engine.state.secrets import PassphraseCrypter, SecretsError

    env = stack.environment
    try:
        path = checkpoint_of(stack)
        if path is None or not (file := env.get("PULUMI_CONFIG_PASSPHRASE_FILE")):
            return
        salt = json.loads(path.read_text())["checkpoint"]["latest"]["secrets_providers"]["state"]["salt"]
        PassphraseCrypter.open(Path(file).read_text().strip(), salt).verify()
    except (OSError, ValueError, KeyError, TypeError, SecretsError):
        return
