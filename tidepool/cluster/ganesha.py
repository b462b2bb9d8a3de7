"""The configuration of nfs-ganesha on a cluster's own file server: what it exports, and to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

#: Where the server has what it serves: a folder for each export, of its name. Also what clients hold open and locked, so that they
#: have it again when the server starts anew.
STORE: Final = "/srv"
CONFIGURATION: Final = "/etc/ganesha/ganesha.conf"
PORT: Final = 2049

#: A client that is silent for so long has lost its locks; for so long a server that starts anew gives out no others. As long as it
#: takes a server to start and a client to come back to it, with much to spare; a server without clients does not wait.
_LEASE_S: Final = 20
_GRACE_S: Final = 30

_HEAD: Final = """\
# Written by Tidepool.
NFS_CORE_PARAM {{ Protocols = 4; Bind_addr = {address}; NFS_Port = {port}; Enable_NLM = false; Enable_RQUOTA = false; }}
NFSv4 {{
    Minor_Versions = 1, 2;
    Lease_Lifetime = {lease};
    Grace_Period = {grace};
    RecoveryBackend = fs;
    RecoveryRoot = {store};
    Only_Numeric_Owners = true;
}}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT_DEFAULTS {{ Access_Type = None; Squash = All; SecType = sys; Protocols = 4; Transports = TCP; }}
"""
_EXPORT: Final = """\
EXPORT {{
    Export_Id = {number};
    Path = {store}/{name};
    Pseudo = /{name};
    FSAL {{ Name = VFS; }}
{clients}}}
"""
_CLIENT: Final = "    CLIENT {{ Clients = {who}; Access_Type = RW; Squash = {squash}; }}\n"


@dataclass(frozen=True, slots=True)
class Export:
    """A folder, and who may mount it. On machines of ``trusted`` root is root; on those of ``others`` it is nobody."""

    name: str
    trusted: IPv4Network
    others: IPv4Network | None = None


def ganesha_conf(address: IPv4Address, exports: Sequence[Export], store: str = STORE) -> str:
    """Return the text of ganesha.conf of a server at ``address``: NFS of version 4.1 and later, by TCP, and no more.

    Who is of no network of an export's is refused.
    """
    head = _HEAD.format(address=address, port=PORT, lease=_LEASE_S, grace=_GRACE_S, store=store)
    return head + "".join(
        _EXPORT.format(number=number, name=export.name, store=store, clients=_clients(export))
        for number, export in enumerate(exports, 1)
    )


def _clients(export: Export) -> str:
    # The first that a client is of counts.
    return _CLIENT.format(who=export.trusted, squash="No_Root_Squash") + (
        _CLIENT.format(who=export.others, squash="Root_Squash") if export.others else ""
    )
