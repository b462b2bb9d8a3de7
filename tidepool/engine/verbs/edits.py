"""``state delete``, ``protect`` and ``unprotect``: small edits of a stack's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidepool.engine import urn as urns
from tidepool.engine.arguments import World
from tidepool.engine.errors import EngineError, UsageError
from tidepool.engine.state.checkpoint import decode_deployment
from tidepool.engine.state.references import verify_integrity
from tidepool.engine.state.secrets import Blind
from tidepool.engine.verbs.workspace import open_workspace

Raw: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """``state remove`` (``state delete``)."""

    urns: tuple[str, ...] = ()
    stack: str = ""
    yes: bool = False
    all: bool = False
    force: bool = False
    target_dependents: bool = False

    def run(self, world: World) -> int:
        """Remove resources from the state; what they stand for stays."""
        if self.all and self.urns:
            raise UsageError("cannot specify a resource URN when deleting all resources")
        count = _edit(world, self.stack, self.urns, self.all, self.yes, self._delete)
        if self.all:
            world.say("Resources deleted")
        else:
            world.say("Resource deleted" if count == 1 else f"{count} resources deleted")
        return 0

    def _delete(self, resources: Sequence[Raw], chosen: Sequence[Raw]) -> list[Raw]:
        gone = list(chosen)
        if self.target_dependents:
            for resource in resources:
                if resource not in gone and any(_depends(resource, g) for g in gone):
                    gone.append(resource)
        for resource in gone:
            if resource.get("protect") and not self.force:
                raise EngineError(
                    f"{resource['urn']} can't be safely deleted because it is protected. Re-run this command with "
                    "--force to force deletion"
                )
            dependents = [r for r in resources if r not in gone and _depends(r, resource)]
            if dependents:
                listed = "".join(f" * {_quoted(r):<15} ({r['urn']})\n" for r in dependents)
                raise EngineError(
                    f"{resource['urn']} can't be safely deleted because the following resources depend on it:\n"
                    f"{listed}\nDelete those resources first or pass --target-dependents."
                )
        return [r for r in resources if r not in gone]


@dataclass(frozen=True, slots=True)
class Protect:
    """``state protect`` and ``state unprotect``."""

    on: bool
    urns: tuple[str, ...] = ()
    stack: str = ""
    yes: bool = False
    all: bool = False

    def run(self, world: World) -> int:
        """Protect resources, or end their protection."""
        count = _edit(world, self.stack, self.urns, self.all, self.yes, self._protect)
        done = "protected" if self.on else "unprotected"
        if self.all:
            world.say(f"All resources {done}")
        else:
            world.say(f"{count} resources {done}")
        return 0

    def _protect(self, resources: Sequence[Raw], chosen: Sequence[Raw]) -> list[Raw]:
        return [_with_protect(r, self.on) if r in chosen else r for r in resources]


def protect(**more: Any) -> Protect:
    """``state protect``."""
    return Protect(True, **more)


def unprotect(**more: Any) -> Protect:
    """``state unprotect``."""
    return Protect(False, **more)


def _edit(
    world: World,
    stack: str,
    chosen_urns: Sequence[str],
    all_of_them: bool,
    yes: bool,
    change: Callable[[Sequence[Raw], Sequence[Raw]], list[Raw]],
) -> int:
    """Change the state's resources; how many were chosen."""
    if not all_of_them and not chosen_urns:
        raise UsageError("must supply <resource URN> unless pulumi is run interactively")
    workspace = open_workspace(world)
    ref = workspace.require(stack or None, offer_new=True)
    # Where nobody can be asked, the command itself is the confirmation, as for the CLI.
    if world.interactive and not yes and not world.flag("PULUMI_SKIP_CONFIRMATIONS"):
        from tidepool.engine.verbs.stacks import confirm

        confirm(world, "This will edit your stack's state directly.", "yes")
    untyped = workspace.backend.export(ref)
    deployment = untyped.get("deployment") or {}
    resources = deployment.get("resources") or []
    live = {r["urn"]: r for r in resources if not r.get("delete")}
    missing = [u for u in chosen_urns if u not in live]
    if missing:
        raise EngineError(
            f'No such resource "{missing[0]}" exists in the current state\nTo list the resource URNs in the stack, run '
            "`pulumi stack --show-urns`; to inspect the full state, run `pulumi stack export`."
        )
    chosen = list(live.values()) if all_of_them else [live[u] for u in dict.fromkeys(chosen_urns)]
    changed = {**deployment, "resources": change(resources, chosen)}
    verify_integrity(decode_deployment(changed, Blind()))
    workspace.backend.import_(ref, {**untyped, "deployment": changed}, edited=True)
    return len(chosen)


def _quoted(resource: Raw) -> str:
    return f'"{urns.name_of(resource["urn"])}"'


def _depends(resource: Raw, other: Raw) -> bool:
    urn = other["urn"]
    if other.get("delete"):
        return False
    named = {resource.get("parent"), resource.get("deletedWith"), *(resource.get("dependencies") or ())}
    for more in (resource.get("propertyDependencies") or {}).values():
        named.update(more or ())
    provider = (resource.get("provider") or "").rpartition("::")[0]
    return urn in named or urn == provider


def _with_protect(resource: Raw, on: bool) -> Raw:
    # In the place where Go writes it: after the outputs and the parent, which Go's reader does not mind.
    return {**resource, "protect": True} if on else {k: v for k, v in resource.items() if k != "protect"}
