"""Declaration of the resource of people's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidepool.resources.model import Field, Model, Resource, given, output


class FilePolicyModel(Model):
    """Properties of a `FilePolicy`. Quotas are bytes, 0 for none."""

    #: The connection of slurmctld's machine.
    controller: Field[Mapping[str, Any]] = given(replaces="known")
    #: Where it has the homes.
    home: Field[str] = given(replaces=True)
    #: The machine whose file system has them, and where, if another one serves them to the controller.
    server: Field[Mapping[str, Any]] = given(default={}, replaces="known")
    served_from: Field[str] = given(default="", stored=True, replaces=True)
    #: Sets the projects of these homes apart from those of others on the same file system.
    scope: Field[str] = given(replaces=True)
    #: Where it is 0, homes of people who are not among ``quotas`` are left as the site has them.
    quota: Field[int] = given(default=0, stored=True, least=0)
    #: By names of people, others than ``quota``.
    quotas: Field[Mapping[str, int]] = given(default={}, stored=True)
    #: As `tidepool.cluster.files.Scratch`; empty for none.
    scratch: Field[Mapping[str, Any]] = given(default={}, stored=True)
    #: ``enforced`` by the file system; ``watched`` where it cannot; ``none``.
    quotas_are: Field[str] = output()


class FilePolicy(Resource, FilePolicyModel, token="tidepool:files:Policy"):
    """Quotas of homes, and the rule by which scratch is wiped.

    Quotas that somebody changed are shown by a refresh, and put back by the next `up`. Quotas that it does not give are not touched.
    Deleted, it takes away those that it gave, and leaves a scratch that is not wiped.
    """
