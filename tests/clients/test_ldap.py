"""Users of a real OpenLDAP: slapd of Debian's, on the loopback, with a certificate of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tidepool.clients.ldap import LdapError, search
from tidepool.cluster.users import Ldap
from tidepool.components.user_directory import user_list

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
_ENTRIES: Final = f"""\
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


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ldap]:
    """A directory, as its reader asks it."""
    if shutil.which("slapd", path="/usr/sbin") is None or shutil.which("ldapsearch") is None:
        pytest.skip("not installed: slapd ldap-utils")
    folder = tmp_path_factory.mktemp("ldap")
    (folder / "data").mkdir()
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
    conf, entries = folder / "slapd.conf", folder / "entries.ldif"
    conf.write_text(_CONF.format(folder=folder, password=PASSWORD))
    entries.write_text(_ENTRIES)
    _run("/usr/sbin/slapadd", "-f", str(conf), "-l", str(entries))
    port, plain = _free_port(), _free_port()
    urls = f"ldaps://127.0.0.1:{port} ldap://127.0.0.1:{plain}"
    slapd = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "/usr/sbin/slapd", "-d", "0", "-f", str(conf), "-h", urls],
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_listening(port)
        yield _ldap(port, folder)
    finally:
        slapd.kill()
        slapd.wait()


def _ldap(port: int, folder: Path) -> Ldap:
    return Ldap(
        uri=f"ldaps://127.0.0.1:{port}",
        base="ou=people,dc=site",
        groups_base="ou=groups,dc=site",
        bind_dn="cn=reader,dc=site",
        ca_file=str(folder / "certificate.pem"),
    )


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


def test_users_and_groups_are_as_a_spec_has_them(directory: Ldap) -> None:
    found, left_out = search(directory, PASSWORD)
    known = user_list(found)
    assert {each.name: each.to_inputs() for each in known.users} == {
        "ada": {
            "uid": 3001,
            "groups": ["optics"],
            "keys": [f"{KEY} ada@laptop"],
            "comment": "Ada room 1 optics",
        },
        "grace": {"uid": 3002, "gid": 4000},
        "alan": {"uid": 3003, "groups": ["optics"]},
    }
    assert [(each.name, each.gid) for each in known.groups] == [("optics", 4000)]
    (said,) = left_out
    assert "a key of ada is left out" in said


def test_a_filter_says_who_is_of_this_cluster(directory: Ldap) -> None:
    found, _ = search(
        directory.model_copy(update={"filter": "(&(uid=grace)(objectClass=posixAccount))"}), PASSWORD
    )
    assert [each["name"] for each in found["users"]] == ["grace"]


@pytest.mark.parametrize(
    ("changes", "password", "word"),
    [
        ({"uri": "ldaps://127.0.0.1:1"}, PASSWORD, "it does not answer"),
        ({"ca_file": None}, PASSWORD, "its certificate is not trusted"),
        ({}, "another", "it does not know `bind_dn`"),
        ({}, None, "`pulumi config set --secret cluster:ldapPassword`"),
        ({"base": "ou=nowhere,dc=site"}, PASSWORD, "there is no such entry"),
        ({"filter": "(uid=)x)"}, PASSWORD, "cannot be read"),
        ({"bind_dn": None}, None, "it gave a part of its entries"),
    ],
)
def test_what_is_no_whole_answer_is_an_error_with_the_remedy(
    directory: Ldap, changes: dict[str, Any], password: str | None, word: str
) -> None:
    with pytest.raises(LdapError, match=word.replace("(", r"\(")) as refused:
        search(directory.model_copy(update=changes), password)
    assert PASSWORD not in str(refused.value)
