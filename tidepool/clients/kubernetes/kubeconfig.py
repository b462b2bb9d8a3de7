"""A kubeconfig, read: where an API server is, by which certificate it is known, and who asks.

Certificates and tokens are read here; what asks another program for a credential is left to the library `kubernetes`, in
a process of its own: importing it takes a quarter of a second, more than a whole conversion spends on asking.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tidepool.clients.here import Here
from tidepool.clients.kubernetes.contract import Unauthorized
from tidepool.clients.kubernetes.reading import moment
from tidepool.clients.transport import TimedOut

#: A credential is asked for anew so long before it ends.
_EARLY: Final = timedelta(minutes=1)
_FOR_EVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Credential:
    """A proof to an API server of who asks: a client certificate with its key (PEM), a token, or nothing."""

    certificate: str = ""
    key: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    until: datetime = _FOR_EVER


@dataclass(frozen=True, slots=True)
class Access:
    """One context of a kubeconfig."""

    host: str
    port: int
    #: Comes before every path: a server behind a proxy has one.
    prefix: str
    #: Certificates of who signed the server's (PEM); empty: those that this machine trusts.
    authority: str
    #: What the server's certificate must be of.
    server_name: str
    user: Mapping[str, Any] = field(repr=False)
    #: Where relative paths of files begin.
    folder: Path
    cluster: Mapping[str, Any] = field(repr=False)

    @property
    def where(self) -> str:
        """For messages: ``the API server at 10.77.0.4:6443``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"the API server at {host}:{self.port}"

    def credential(self, timeout_s: float) -> Credential:
        """Return the credential as it is now: files of tokens change, and programs are asked again.

        Raises:
            Unauthorized: there is no credential to be had; says why.
        """
        user = self.user
        try:
            if "exec" in user:
                return self._by_program(timeout_s)
            if token := user.get("token"):
                return Credential(token=str(token))
            if path := user.get("tokenFile"):
                read = (self.folder / str(path)).read_text("utf-8").strip()
                return Credential(token=read, until=datetime.now(UTC) + 2 * _EARLY)
            certificate = _pem(user, "client-certificate", self.folder)
            return Credential(certificate, _pem(user, "client-key", self.folder) if certificate else "")
        except (OSError, ValueError) as error:
            raise Unauthorized(f"no credential for {self.where}: {error}; mend the kubeconfig") from error

    def _by_program(self, timeout_s: float) -> Credential:
        """A credential by the program that ``exec`` names, within ``timeout_s`` seconds."""
        said = _ask_program(
            {"exec": self.user["exec"], "cluster": self.cluster, "folder": str(self.folder.absolute())},
            timeout_s,
        )
        until = moment(str(said.get("expirationTimestamp") or ""))
        found = Credential(
            str(said.get("clientCertificateData") or ""),
            str(said.get("clientKeyData") or ""),
            str(said.get("token") or ""),
            _FOR_EVER if until is None else until - _EARLY,
        )
        if not found.token and not (found.certificate and found.key):
            raise ValueError("its program gave neither a token nor a certificate with its key")
        return found


def _ask_program(asked: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
    """Return what the library has the program say, in a process that ends with all that it started when it is late."""
    program = [sys.executable, "-m", "tidepool.clients.kubernetes.credential_program"]
    try:
        ended = Here(os.environ).run(program, stdin=json.dumps(asked), timeout_s=timeout_s)
    except TimedOut:
        raise ValueError(f"its program gave none within {timeout_s:g} s") from None
    if ended.exit_code:
        raise ValueError(ended.stderr.strip() or "its program gave none")
    read = json.loads(ended.stdout)
    if not isinstance(read, dict):
        raise ValueError("its program gave none")
    return read


def read_kubeconfig(text: str, folder: Path = Path()) -> Access:
    """The context of a kubeconfig that it calls its current one.

    Relative paths in it begin in ``folder``, the one that it is in.

    Raises:
        ValueError: it is none, or leads nowhere safe; says what, and what is allowed. No secret is in the text.
    """
    import yaml

    try:
        read = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise ValueError(f"the kubeconfig is no YAML{where}") from None
    if not isinstance(read, dict):
        raise ValueError("the kubeconfig is no mapping")
    name = read.get("current-context")
    if not name:
        raise ValueError("the kubeconfig has no current-context: kubectl config use-context NAME")
    chosen = _named(read, "contexts", name, "context")
    cluster = _named(read, "clusters", chosen.get("cluster"), "cluster")
    user = _named(read, "users", chosen["user"], "user") if chosen.get("user") else {}
    return _access(cluster, user, folder)


def _access(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> Access:
    server = str(cluster.get("server") or "")
    try:
        url = urlsplit(server)
        port = url.port or 443
    except ValueError:
        raise ValueError(f"the server {server!r} of the kubeconfig is no URL: https://HOST:PORT") from None
    if url.scheme != "https" or not url.hostname:
        raise ValueError(f"the server {server!r} of the kubeconfig is not asked: only https://HOST:PORT is")
    if cluster.get("insecure-skip-tls-verify"):
        raise ValueError(
            "the kubeconfig says insecure-skip-tls-verify, and then anybody can be the API server: "
            "name who signed its certificate, by certificate-authority-data"
        )
    if cluster.get("proxy-url"):
        raise ValueError(
            "the kubeconfig has a proxy-url, which is not used here: name a server that is reached without"
        )
    if other := sorted({"auth-provider", "username", "password"} & set(user)):
        raise ValueError(
            f"the user of the kubeconfig has {', '.join(other)}, which is not used here: a client certificate, a token, "
            "tokenFile and exec are"
        )
    if impersonated := sorted(key for key in user if key.startswith("as")):
        raise ValueError(
            f"the user of the kubeconfig has {', '.join(impersonated)}: nobody is impersonated here"
        )
    try:
        authority = _pem(cluster, "certificate-authority", folder)
    except OSError as error:
        raise ValueError(f"the certificate-authority of the kubeconfig cannot be read: {error}") from None
    return Access(
        url.hostname,
        port,
        url.path.rstrip("/"),
        authority,
        str(cluster.get("tls-server-name") or url.hostname),
        user,
        folder,
        cluster,
    )


def _named(read: Mapping[str, Any], kind: str, name: object, key: str) -> Mapping[str, Any]:
    listed = read.get(kind) or []
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ValueError(f"{kind} of the kubeconfig is no list")
    found = [one.get(key) for one in listed if isinstance(one, dict) and one.get("name") == name]
    if len(found) != 1 or not isinstance(found[0], dict):
        there = ", ".join(str(one.get("name")) for one in listed if isinstance(one, dict)) or "none"
        raise ValueError(f"the kubeconfig has no {key} {name!r}, or more than one: there is {there}")
    return found[0]


def _pem(read: Mapping[str, Any], key: str, folder: Path) -> str:
    """Return what ``key-data`` holds, or the file that ``key`` names; empty where there is neither."""
    if data := read.get(f"{key}-data"):
        try:
            return base64.b64decode(str(data), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            raise ValueError(f"{key}-data of the kubeconfig is no base64 of PEM") from None
    return (folder / str(read[key])).read_text("ascii") if read.get(key) else ""
