"""Other clusters that use the slurmdbd of one that goes, or is to be theirs no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidepool.cli import show
from tidepool.cli.errors import Failure
from tidepool.cli.stack import Stack

if TYPE_CHECKING:
    from tidepool.cluster.spec import ClusterSpec


def look_at_sharers(
    stack: Stack, outputs: Mapping[str, Any], spec: ClusterSpec | None = None, *, force: bool = False
) -> None:
    """Refuse to take slurmdbd from clusters that use it and are up, with ``spec`` or altogether; with ``force``, warn of it.

    Raises:
        Failure: there are some.
        SlurmError: it cannot be asked whether there are.
    """
    known = outputs.get("accounting")
    if known is None:
        return
    from tidepool.clients.slurm import SlurmError
    from tidepool.clients.slurm.sharers import sharers_up
    from tidepool.infrastructures.connection import transport

    own = spec.controller.own_accounting if spec is not None else None
    stay = {each.cluster: str(each.network) for each in own.shared_with} if own is not None else {}
    gone = {name: network for name, network in known["sharedWith"].items() if stay.get(name) != network}
    try:
        using = sharers_up(transport(known["server"], stack.data), gone)
    except SlurmError as error:
        if not force:
            raise
        show.warn(f"{error.what} ({error.where})")
        return
    told = f"the slurmdbd of stack {stack.name} is used by {', '.join(using)}"
    if using and not force:
        raise Failure(f"{told}, and would be theirs no more", remedy="take them down first")
    if using:
        show.warn(f"{told}, and goes: jobs there go on, and are recorded when it is there again")
