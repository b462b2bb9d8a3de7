"""Copies of a stack's file: the spec with changes, on a network that nobody else here has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

import click

from tidepool.cli.errors import USAGE, Failure
from tidepool.cli.free_networks import in_free_network
from tidepool.cli.stack import Stack
from tidepool.cli.stack_spec import SPEC_KEY, check_images, read_described, spec_document
from tidepool.cluster.relocation import in_network
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_changes import Change, with_changes
from tidepool.cluster.spec_entries import Mistake, as_network
from tidepool.engine import yaml_reading
from tidepool.engine.config import Key, from_document, full_key, is_secure
from tidepool.engine.config_file import StackConfig, read, rewritten


@dataclass(frozen=True, slots=True)
class StackCopy:
    """A copy of ``source`` as ``stack``, which has no file yet: its spec, as it will stand there, and as it was read."""

    source: Stack
    stack: Stack
    document: Mapping[str, Any]
    spec: ClusterSpec
    #: A person said on which network.
    has_network: bool = False

    def on_free_network(self, others: Iterable[IPv4Network] = ()) -> StackCopy:
        """Return the same on a network that is free, unless a person said which; errors as of `in_free_network`.

        ``others`` are taken, besides those that are known here. It is free within `choosing_network`.
        """
        if self.has_network:
            return self
        return replace(self, document=in_free_network(self.spec, self.document, self.source, others))

    def named(self, name: str) -> StackCopy:
        """Return the same by another name."""
        return replace(self, stack=replace(self.stack, name=name), document={**self.document, "name": name})

    @property
    def secrets(self) -> tuple[Key, ...]:
        """Keys of the source's configuration that are secrets, encrypted by a key of its own."""
        values = read(self.source.file, self.source.project.name).values
        return tuple(key for key, value in values.items() if is_secure(value))

    def text(self, *, with_secrets: bool) -> str:
        """Return the content of the file: the source's, comments too. Without its secrets, and their key, or with both."""
        project = self.source.project.name
        config = read(self.source.file, project)
        values = {
            **{key: value for key, value in config.values.items() if with_secrets or not is_secure(value)},
            full_key(SPEC_KEY): from_document(self.document),
        }
        made = replace(config, path=self.stack.file, values=values)
        if not with_secrets:
            made = StackConfig(made.path, values, secrets_provider=config.secrets_provider)
        return rewritten(self.source.file.read_text(encoding="utf-8-sig"), made, project)

    def write(self, *, with_secrets: bool) -> None:
        """Write the file, which only root reads.

        Raises:
            Failure: it is there.
        """
        path, text = self.stack.file, self.text(with_secrets=with_secrets)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise _taken(path) from None
        with os.fdopen(descriptor, "w") as file:
            file.write(text)


def copy_of(source: Stack, name: str, changes: Sequence[Change] = ()) -> StackCopy:
    """Return a copy with changes, on the network that they say or that of ``source``; nothing is written.

    Raises:
        Failure: there is a file of that name, or the spec has mistakes: all of them.
    """
    stack = replace(source, name=name)
    if stack.file.exists():
        raise _taken(stack.file)
    named = [Mistake(each.path, each.value, _NAMED) for each in changes if each.path == "name"]
    document: dict[str, Any] = {**spec_document(source), "name": name}
    before, said = as_network(document.get("network")), [each for each in changes if each.path == "network"]
    for network in (as_network(each.value) for each in said):
        if before and network and before.prefixlen == network.prefixlen:
            document = in_network(document, before, network)
    document, mistakes = with_changes(document, [each for each in changes if each.path != "name"])
    spec = read_described(document, f"stack {name}, made of {source.file}", (*named, *mistakes))
    check_images(spec, stack)
    return StackCopy(source, stack, document, spec, bool(said))


_NAMED: Final = (
    "its stack has that name; a cluster is named as its stack, by which /home and accounting are its own"
)


def _taken(path: Path) -> Failure:
    return Failure(
        f"there is {path} already, and nothing was written", remedy="take another name", code=USAGE
    )


class ChangeOption(click.ParamType[Change]):
    """``PATH=VALUE``, the value as YAML reads it."""

    name = "change"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Change:
        if isinstance(value, Change):
            return value
        path, equals, text = str(value).partition("=")
        if not equals or not path:
            self.fail(f"{value!r} is no PATH=VALUE; write fleets.cpu.max_nodes=8", param, ctx)
        try:
            return Change(path, yaml_reading.load(text))
        except ValueError as error:
            self.fail(f"the value of {path} is no YAML: {error}", param, ctx)


changes_option = click.option(
    "--set",
    "changes",
    metavar="PATH=VALUE",
    type=ChangeOption(),
    multiple=True,
    help="Change its spec: `fleets.cpu.max_nodes=8`, `image=debian-13`; `null` leaves a key out. May be said again.",
)
