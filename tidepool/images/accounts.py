"""Accounts with fixed numbers, as lines of passwd and group. Pure.

They have to be there before the packages: a package that finds no account of its name takes the next free number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidepool.images.recipe import Account

#: nogroup; base-passwd has it.
_NOGROUP: Final = 65534


@dataclass(frozen=True)
class AccountLines:
    """What is added to the files of the same names in ``/etc``. `*` is a password that none matches."""

    passwd: str
    group: str


def account_lines(users: Mapping[str, Account]) -> AccountLines:
    """The lines for those of ``users`` that nobody logs in with; a role makes the others, and their homes."""
    system = {name: account for name, account in users.items() if not account.is_person}
    return AccountLines(
        passwd="".join(f"{n}:*:{a.uid}:{a.gid}::{a.home}:{a.shell}\n" for n, a in system.items()),
        group="".join(f"{n}:*:{a.gid}:\n" for n, a in system.items() if a.gid != _NOGROUP),
    )
