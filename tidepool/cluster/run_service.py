"""The service of runs, as a cluster that was made for one knows it: where its outputs are taken, and its end is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from tidepool.cluster.part import Part

#: On the controller: the program that asks the service (`tidepool.runs.controller_agent`), that which reads files of a run, and a
#: folder of root's on the volume of slurmctld's state, so that a machine that boots again has it.
RUN_PROGRAM: Final = "/usr/local/lib/tidepool/run.py"
RUN_FILES_PROGRAM: Final = "/usr/local/lib/tidepool/run_files.py"
RUN_FOLDER: Final = "/var/spool/slurmctld/run"
CREDENTIALS_FILE: Final = f"{RUN_FOLDER}/credentials.json"

_PORTS: Final = {"http": 80, "https": 443}


def _url(url: str) -> str:
    parts = urlsplit(url)
    try:
        address, port = IPv4Address(parts.hostname or ""), parts.port
    except (AddressValueError, ValueError):
        raise ValueError(
            "write https://ADDRESS:PORT, an IPv4 address; names are not looked up where rules of firewalls are made"
        ) from None
    if (
        parts.scheme not in _PORTS
        or parts.username
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
    ):
        raise ValueError("write https://ADDRESS:PORT, and nothing before or after")
    if parts.scheme == "http" and not address.is_private:
        raise ValueError(
            "tokens would go over networks of others in clear; write https://, and give `reap` a --certificate"
        )
    if address.is_loopback or address.is_unspecified:
        raise ValueError(
            "a cluster's machines do not reach that; write an address of this machine that others reach"
        )
    return f"{parts.scheme}://{address}:{port or _PORTS[parts.scheme]}"


class RunService(Part):
    """The service to which the controller of a run's cluster brings outputs and where it asks for its end, once who began the run is gone."""

    url: Annotated[str, AfterValidator(_url)] = Field(
        description="Where `tidepool reap --listen` listens: `https://192.0.2.7:8443`; `http://` within private networks alone."
    )
    certificate: str | None = Field(
        default=None,
        description="Its certificate, or that of who signed it, as PEM; by default one that the image trusts.",
    )

    @property
    def egress(self) -> Mapping[str, Any]:
        """The rule of the only connections that a controller opens to it, as a firewall's."""
        parts = urlsplit(self.url)
        return {"to": [parts.hostname], "ports": [parts.port], "description": "the service of runs"}
