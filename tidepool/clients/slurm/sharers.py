"""The clusters that use a slurmdbd, and are up: slurmdbd's machine reaches their slurmctld, as it has to.

slurmdbd itself does not say it for sure: where a slurmctld ends and starts again at once, 22.05 may hold it for gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Final

from tidepool.clients.slurm.contract import SlurmError
from tidepool.clients.transport import Transport
from tidepool.cluster.accounting import SLURMCTLD_PORT
from tidepool.cluster.addresses import OwnAddresses

_WAIT_S: Final = 3
_TIMEOUT_S: Final = 15.0
_CONNECT: Final = "exec 3<>/dev/tcp/$0/$1"


def sharers_up(dbd: Transport, networks: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of those of ``networks``, by name, whose slurmctld answers the machine of slurmdbd.

    None where that machine cannot be asked: nobody uses it then.
    """
    return tuple(name for name, network in sorted(networks.items()) if _is_up(dbd, IPv4Network(network)))


def _is_up(dbd: Transport, network: IPv4Network) -> bool:
    own = OwnAddresses(network)
    for address in (own.controller, own.backup_controller):
        command = ["timeout", str(_WAIT_S), "bash", "-c", _CONNECT, str(address), str(SLURMCTLD_PORT)]
        try:
            if dbd.run(command, timeout_s=_TIMEOUT_S).exit_code == 0:
                return True
        except SlurmError:
            return False
    return False
