"""Configuration of the brokers of a laboratory's Flux, as TOML. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

#: Where the leader listens; followers connect with it, and with nobody else.
PORT: Final = 8050


def configuration(leader: str, machines: Sequence[str], cores: int, certificate: PurePath) -> str:
    """Return the text of a file of brokers: the leader is rank 0 and runs no jobs, machines are its followers in their order.

    Args:
        leader: the host name of the leader's machine.
        machines: host names; each has as many cores.
        cores: that jobs may have of each, from the first.
        certificate: the file of the key that brokers know each other by, as they see it.

    Cores are said and not looked for: brokers would count those of the whole host.
    """
    hosts = ", ".join(f"{{host = {json.dumps(host)}}}" for host in (leader, *machines))
    return f"""\
[bootstrap]
curve_cert = {json.dumps(str(certificate))}
default_port = {PORT}
default_bind = "tcp://*:%p"
default_connect = "tcp://%h:%p"
hosts = [{hosts}]

[tbon]
# How long a machine may be silent that went away without a word; slurmd has as long.
tcp_user_timeout = "20s"

[resource]
exclude = {json.dumps(leader)}
verify = false

[[resource.config]]
hosts = {json.dumps(",".join((leader, *machines)))}
cores = {json.dumps(f"0-{cores - 1}" if cores > 1 else "0")}
"""
