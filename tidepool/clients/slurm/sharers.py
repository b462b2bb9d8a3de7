"""The clusters that use a slurmdbd, and are up: slurmdbd's machine reaches their slurmctld, as it has to.

slurmdbd itself does not say it for sure: where a slurmctld ends and starts again at once, 22.05 may hold it for gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Final

from tidepool.clients.slurm.contract import SlurmError
from tidepool.clients.transport import NotRunning, Transport, Unreachable
from tidepool.cluster.accounting import SLURMCTLD_PORT
from tidepool.cluster.addresses import OwnAddresses

_WAIT_S: Final = 3
_TIMEOUT_S: Final = 15.0
_CONNECT: Final = "exec 3<>/dev/tcp/$0/$1"
#: How that ends where nobody is there: refused, or no way to it; nobody answered within the time.
_NOBODY: Final = (1, 124)


def sharers_up(dbd: Transport, networks: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of those of ``networks``, by name, whose slurmctld answers the machine of slurmdbd.

    None where that machine is gone, or does not run: nobody uses it then.

    Raises:
        Unreachable: it cannot be asked, and somebody may use it.
    """
    try:
        return tuple(name for name, network in sorted(networks.items()) if _is_up(dbd, IPv4Network(network)))
    except NotRunning:
        return ()
    except SlurmError as error:
        raise _unknown(error.what, error.where) from error


def _is_up(dbd: Transport, network: IPv4Network) -> bool:
    own = OwnAddresses(network)
    for address in (own.controller, own.backup_controller):
        command = ["timeout", str(_WAIT_S), "bash", "-c", _CONNECT, str(address), str(SLURMCTLD_PORT)]
        ended = dbd.run(command, timeout_s=_TIMEOUT_S)
        if ended.exit_code == 0:
            return True
        if ended.exit_code not in _NOBODY:
            said = ended.stderr.strip() or "without a word"
            raise _unknown(f"`timeout` ended with {ended.exit_code}: {said}", dbd.where)
    return False


def _unknown(why: str, where: str) -> Unreachable:
    return Unreachable(
        f"the machine of slurmdbd cannot be asked which other clusters use it: {why}",
        where=where,
        remedy="see that the machine answers and ask again; or leave them in `shared_with`; `tidepool down --force` takes it from whoever "
        "uses it",
    )
