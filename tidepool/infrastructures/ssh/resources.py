"""Hosts that are there already: whose each is, and what playbooks make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidepool.resources.model import Field, Model, Resource, derived, given, output


class SshHostModel(Model):
    """Properties of an `SshHost`."""

    stack: Field[str] = given(replaces=True)
    node: Field[str] = given(replaces=True)
    #: Its name in the inventory.
    host: Field[str] = given(replaces=True)
    #: Its node's in the cluster.
    address: Field[str] = given(default="", replaces=True)
    #: How it is reached.
    connection: Field[Mapping[str, Any]] = given()
    #: What tells this claim from others; playbooks of it are undone with it.
    claim: Field[Mapping[str, Any]] = output(default={})
    #: The machine's id: another one when the host was given back in between.
    machine: Field[str] = output()


class SshHost(Resource, SshHostModel, token="tidepool:ssh:Host"):
    """A host that is the node ``node`` of a stack, and of no other; deleting it gives the host back as it was before."""


class SshPlaybookModel(Model):
    """Properties of an `SshPlaybook`."""

    playbooks: Field[str] = given()
    roles: Field[Sequence[str]] = given()
    #: What takes it from here comes after the play.
    connection: Field[Mapping[str, Any]] = given()
    variables: Field[Mapping[str, Any]] = given(default={})
    secrets: Field[Mapping[str, Any]] = given(default={}, secret=True)
    stack: Field[str] = given(default="")
    boot: Field[str] = given(default="")
    #: Digest of the golden image that a pool's host gets what Kubernetes needs from; empty where it needs none.
    image: Field[str] = given(default="")
    claim: Field[Mapping[str, Any]] = given(default={}, replaces=True)
    host: Field[str] = given(default="", replaces=True)
    #: Tells the files of these roles from all others.
    digest: Field[str] = derived()


class SshPlaybook(Resource, SshPlaybookModel, token="tidepool:ssh:Playbook"):
    """Roles of the folder ``playbooks`` on the host of a connection: applied when they, or what they are told, change.

    ``variables`` are kept in the clear, ``secrets`` (the same) encrypted; neither is in a command's arguments, and what is
    secret is left out of what a failed play says. ``boot`` names a boot of ``stack``, which the role `services` is told.
    With ``image``, the digest of a golden image, `at_rest`, `kubernetes_node` and `converged_node` install what that image has.
    With ``claim``, a `SshHost`'s, all that it changes is undone when that host is given back; without, it stays.
    """
