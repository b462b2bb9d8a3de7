"""Users of a cluster and their groups, the same on all of its machines, as a spec or a directory names them."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, model_validator

from tidepool.cluster.part import Part, Whole
from tidepool.cluster.shape import Quota
from tidepool.cluster.user_files import DEFAULT_SHELL, LEAST_NUMBER, NAME

_MOST_NUMBER: Final = 2_000_000_000
#: Above 1,000: Debian's nobody, and what images have of their own.
_TAKEN_NUMBERS: Final = frozenset({64_030, 65_534, 65_535})

#: Of base-passwd, of the packages of images, and of what a machine of a cloud has besides.
SYSTEM_NAMES: Final = frozenset(
    {
        "root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data",
        "backup", "list", "irc", "gnats", "nobody", "_apt", "adm", "tty", "disk", "kmem", "dialout",
        "fax", "voice", "cdrom", "floppy", "tape", "sudo", "audio", "dip", "operator", "src", "shadow",
        "utmp", "video", "sasl", "plugdev", "staff", "users", "nogroup", "messagebus", "systemd-network",
        "systemd-resolve", "systemd-timesync", "munge", "mysql", "slurm", "sshd", "admin", "debian",
        "tidepool",
    }
)  # fmt: skip
_KEY_TYPES: Final = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa",
    "sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com",
)  # fmt: skip
#: The modulus of RSA has a zero byte before it.
_LEAST_RSA_BYTES: Final = 2048 // 8
_COMMENT: Final = re.compile(r"[^\x00-\x1f:,]{0,200}")


def user_name(name: str) -> str:
    """Return a user's or group's name; raises ValueError with what it can be."""
    if not NAME.fullmatch(name):
        raise ValueError(
            "a name is a small letter or '_', then small letters, digits, '_', '.' or '-', at most 32"
        )
    if name in SYSTEM_NAMES:
        raise ValueError("it is one of the system's own; take another")
    return name


def _number(number: int) -> int:
    if number in _TAKEN_NUMBERS:
        raise ValueError("images have this number themselves; take another")
    return number


def ssh_key(line: str) -> str:
    """Return a public key as authorized_keys has it, without its line's end; raises ValueError with what is wrong, and not the key."""
    if "PRIVATE KEY" in line:
        raise ValueError(
            "this is a private key, which belongs to its owner alone: make another, and write its .pub file"
        )
    words = line.split()
    if len(words) < 2 or "\n" in line.strip() or words[0] not in _KEY_TYPES:
        raise ValueError(
            f"write one line as in a .pub file, which begins with {', '.join(_KEY_TYPES[:-1])} or {_KEY_TYPES[-1]}"
        )
    try:
        fields = _fields(base64.b64decode(words[1], validate=True))
    except (binascii.Error, ValueError):
        raise ValueError("it is cut off or changed; copy the line of the .pub file once more") from None
    if len(fields) < 2 or fields[0] != words[0].encode():
        raise ValueError(f"it is no key of the type {words[0]}; copy the line of the .pub file once more")
    if words[0] == "ssh-rsa" and (len(fields) < 3 or len(fields[2].lstrip(b"\0")) < _LEAST_RSA_BYTES):
        raise ValueError(
            "a key of RSA with fewer than 2,048 bits, which sshd refuses; make one with `ssh-keygen -t ed25519`"
        )
    return " ".join(words)


def _fields(blob: bytes) -> list[bytes]:
    """The fields of a key (RFC 4253, section 6.6), each of which has its length before it."""
    fields = []
    while blob:
        length = int.from_bytes(blob[:4], "big")
        if len(blob) < 4 + length:
            raise ValueError("it ends early")
        fields.append(blob[4 : 4 + length])
        blob = blob[4 + length :]
    return fields


UserName = Annotated[str, AfterValidator(user_name)]
_Number = Annotated[Whole, Field(ge=LEAST_NUMBER, le=_MOST_NUMBER), AfterValidator(_number)]


def _shell(path: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._+-]+)+", path):
        raise ValueError("write the path of a shell: /bin/bash")
    return path


def _comment(text: str) -> str:
    if not _COMMENT.fullmatch(text):
        raise ValueError("write at most 200 characters on one line, without ':' and ','")
    return text


class Group(Part):
    """A group of users, beside the one that each user has."""

    name: UserName = Field(description="The group's name.")
    gid: _Number = Field(description="Its number, on all machines and file servers.")


class User(Part):
    """Somebody who may log in, and submit jobs."""

    name: UserName = Field(description="The name by which they log in. Their home is /home/NAME.")
    uid: _Number = Field(
        description="Their number, on all machines and file servers. It never changes, as their files are known by it."
    )
    gid: _Number | None = Field(
        default=None,
        description="The number of their first group, one of `groups` of the spec; by default a group of their own, with their name and number.",
    )
    groups: tuple[UserName, ...] = Field(default=(), description="More groups that they are in.")
    keys: tuple[Annotated[str, AfterValidator(ssh_key)], ...] = Field(
        default=(), description="Public SSH keys by which they log in, each a line as in a .pub file."
    )
    quota_mib: Quota | None = Field(
        default=None,
        validation_alias="quota",
        description="What they may use of /home, in MiB or with a unit; by default `quota` of `home`.",
    )
    comment: Annotated[str, AfterValidator(_comment)] = Field(
        default="", description="Who they are, for people."
    )
    shell: Annotated[str, AfterValidator(_shell)] = Field(
        default=DEFAULT_SHELL, description="Their login shell."
    )

    def to_inputs(self) -> dict[str, Any]:
        """Return them as `tidepool.cluster.user_files` has a user."""
        inputs = self.model_dump(mode="json", exclude={"name", "quota_mib"}, exclude_defaults=True)
        return inputs | ({"groups": sorted(self.groups)} if self.groups else {})


#: Of a cluster whose spec names nobody.
RESEARCHER: Final = User(name="researcher", uid=2000)


class Ldap(Part):
    """An LDAP directory whose entries are as RFC 2307 has them: posixAccount and posixGroup."""

    uri: Annotated[str, Field(pattern=r"^ldaps?://[A-Za-z0-9.-]+(:[0-9]+)?$")] = Field(
        description="Where it is: `ldaps://ldap.site`. With `ldap://` STARTTLS is used, and must be."
    )
    base: str = Field(min_length=1, description="Users are below it: `ou=people,dc=site`.")
    filter: Annotated[str, Field(pattern=r"^\(.*\)$")] = Field(
        default="(objectClass=posixAccount)",
        description="Which of the entries there are this cluster's users.",
    )
    groups_base: str | None = Field(
        default=None, description="Groups are below it; by default where users are."
    )
    bind_dn: str | None = Field(
        default=None,
        description="As whom it is asked; by default as nobody. The password is `cluster:ldapPassword` of the stack's "
        "configuration, a secret.",
    )
    ca_file: str | None = Field(
        default=None, description="The certificates of who signed its own, in PEM; by default the system's."
    )
    timeout_s: Whole = Field(default=10, ge=1, description="How long it may take to answer.")


class Directory(Part):
    """The source of more users and groups than the spec names. It is read by each `up` and `preview` of a person."""

    file: str | None = Field(
        default=None,
        description="A JSON file with `users` and `groups` as in a spec, such as another stack's output `spec`, or `users` where that has a directory.",
    )
    ldap: Ldap | None = Field(default=None, description="An LDAP directory, as below.")
    system: bool = Field(
        default=False,
        description="Whether machines know users by themselves: an image or hosts of your own, with sssd or the like.",
    )
    at_least: Whole | None = Field(
        default=None,
        ge=0,
        description="So many users it has at least: with fewer it has answered in part, so nobody goes, and that is told. By "
        "default one, and half of those that the cluster has.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if [self.file is not None, self.ldap is not None, self.system].count(True) != 1:
            raise ValueError("name one of `file`, `ldap` and `system`")
        return self


@dataclass(frozen=True, slots=True)
class UserList:
    """Users and groups of a cluster, wherever they were named."""

    users: tuple[User, ...] = (RESEARCHER,)
    groups: tuple[Group, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return them as a stack's output, and as a file that a `Directory` names."""
        return {
            kind: [each.model_dump(mode="json", exclude_defaults=True) for each in listed]
            for kind, listed in (("users", self.users), ("groups", self.groups))
        }
