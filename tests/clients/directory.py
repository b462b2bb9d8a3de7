"""A real OpenLDAP: slapd of Debian's on the loopback, with a certificate of its own, users and groups."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tidepool.cluster.users import Ldap

PASSWORD: Final = "of a reader"
KEY: Final = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFPHqMvlfHPfJ4dvKXcY4u+FDTZg6Rb1dSLrgQK8bLkG"
_CONF: Final = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch
  SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile {folder}/certificate.pem
TLSCertificateKeyFile {folder}/key.pem
security simple_bind=128
sizelimit size.soft=unlimited size.hard=unlimited size.prtotal=unlimited
database mdb
suffix "dc=site"
rootdn "cn=reader,dc=site"
rootpw "{password}"
directory {folder}/data
access to dn.subtree="ou=hidden,dc=site" by * none
limits anonymous size.soft=1 size.hard=1 size.prtotal=1
access to * by * read
"""
ENTRIES: Final = f"""\
dn: dc=site
objectClass: dcObject
objectClass: organization
dc: site
o: Site

dn: ou=people,dc=site
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=site
objectClass: organizationalUnit
ou: groups

dn: uid=ada,ou=people,dc=site
objectClass: account
objectClass: posixAccount
objectClass: ldapPublicKey
uid: ada
cn: Ada Lovelace
uidNumber: 3001
gidNumber: 3001
homeDirectory: /home/ada
gecos: Ada, room 1: optics
loginShell: /bin/bash
sshPublicKey: {KEY} ada@laptop
sshPublicKey: ssh-dss AAAAB3NzaC1kc3MAAACBAOld

dn: uid=grace,ou=people,dc=site
objectClass: account
objectClass: posixAccount
uid: grace
cn: Grace
uidNumber: 3002
gidNumber: 4000
homeDirectory: /home/grace

dn: uid=alan,ou=people,dc=site
objectClass: account
objectClass: posixAccount
uid: alan
cn: Alan
uidNumber: 3003
gidNumber: 100
homeDirectory: /home/alan

dn: cn=ada,ou=groups,dc=site
objectClass: posixGroup
cn: ada
gidNumber: 3001

dn: cn=optics,ou=groups,dc=site
objectClass: posixGroup
cn: optics
gidNumber: 4000
memberUid: ada
memberUid: alan

dn: cn=users,ou=groups,dc=site
objectClass: posixGroup
cn: users
gidNumber: 100
memberUid: grace
"""


@dataclass
class Directory:
    """A directory, as its reader asks it (``ldap``)."""

    folder: Path
    ldap: Ldap
    port: int
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        urls = f"ldaps://127.0.0.1:{self.port}"
        conf = str(self.folder / "slapd.conf")
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "/usr/sbin/slapd", "-d", "0", "-f", conf, "-h", urls],
            stderr=subprocess.DEVNULL,
        )
        _until_listening(self.port)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def change(self, ldif: str) -> None:
        """Do what ``ldif`` says, as its administrator."""
        password = self.folder / "password"
        password.touch(0o600)
        password.write_text(PASSWORD)
        subprocess.run(
            ["ldapmodify", "-x", "-H", self.ldap.uri, "-D", "cn=reader,dc=site", "-y", str(password)],
            env={"PATH": "/usr/bin", "LDAPTLS_CACERT": str(self.folder / "certificate.pem")},
            input=ldif,
            text=True,
            check=True,
            capture_output=True,
        )


@contextmanager
def directory(folder: Path, entries: str = ENTRIES) -> Iterator[Directory]:
    """A directory with these entries, that runs. Skips where there is no slapd."""
    if shutil.which("slapd", path="/usr/sbin") is None or shutil.which("ldapsearch") is None:
        pytest.skip("not installed: slapd ldap-utils")
    (folder / "data").mkdir(parents=True)
    _run(
        *(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ),
        *("-subj", "/CN=site", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")),
    )
    conf, written = folder / "slapd.conf", folder / "entries.ldif"
    conf.write_text(_CONF.format(folder=folder, password=PASSWORD))
    written.write_text(entries)
    _run("/usr/sbin/slapadd", "-f", str(conf), "-l", str(written))
    port = _free_port()
    ldap = Ldap(
        uri=f"ldaps://127.0.0.1:{port}",
        base="ou=people,dc=site",
        groups_base="ou=groups,dc=site",
        bind_dn="cn=reader,dc=site",
        ca_file=str(folder / "certificate.pem"),
    )
    found = Directory(folder, ldap, port)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def _free_port() -> int:
    with closing(socket.socket()) as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


def _until_listening(port: int) -> None:
    for _ in range(300):
        with closing(socket.socket()) as it:
            if it.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("slapd does not listen")
