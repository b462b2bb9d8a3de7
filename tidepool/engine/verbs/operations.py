"""``preview``, ``up``, ``refresh`` and ``destroy``: from the flags to the engine's request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidepool.engine.errors import ConfirmationMissing, NotSupportedError, UsageError
from tidepool.engine.project import find_project, require_python
from tidepool.engine.request import OperationKind, OperationRequest, World
from tidepool.engine.verbs.grammar import FALSE, TRUE


def preview(world: World, **values: Any) -> int:
    """Show what an update would do."""
    return _run(request("preview", values), world)


def up(world: World, template: str = "", **values: Any) -> int:
    """Create or update the resources of a stack."""
    if template:
        raise NotSupportedError(f"`up` from the template '{template}'")
    return _run(request("up", values), world)


def refresh(world: World, **values: Any) -> int:
    """Bring the state up to date with what exists."""
    return _run(request("refresh", values), world)


def destroy(world: World, **values: Any) -> int:
    """Delete all resources of a stack."""
    targets = values.get("targets") or values.get("excludes")
    if targets and values.get("exclude_protected"):
        raise UsageError("you cannot specify --target and --exclude-protected")
    if targets and values.get("remove"):
        raise UsageError("cannot use --target with --remove: the stack still has resources then")
    return _run(request("destroy", values), world)


def _run(request: OperationRequest, world: World) -> int:
    request = _with_environment(request, world.env)
    # In the CLI's order: the project, the approval, the stack. And before the engine is imported, which is slow.
    project = find_project(world.cwd)
    if not request.client and (request.kind in ("preview", "up") or request.run_program):
        require_python(project)
    request = _approved(request, world, project.refresh_always)
    from tidepool.engine import operation

    return operation.run(request, world)


def request(kind: OperationKind, values: dict[str, Any]) -> OperationRequest:
    """Return the request that the flags ``values`` make."""
    if "refresh" in values:
        text = values["refresh"]
        if text not in TRUE | FALSE:
            raise UsageError("unable to determine value for --refresh")
        values["refresh"] = text in TRUE
    both = values.pop("target_replace", ())
    if both:
        values["targets"] = (*values.get("targets", ()), *both)
        values["replace"] = (*values.get("replace", ()), *both)
    parallel = values.get("parallel")
    if parallel is not None and parallel < 1:
        values["parallel"] = 1  # as the CLI takes it: no parallelism
    for name in ("stack", "config_file"):
        if not values.get(name):
            values.pop(name, None)
    return OperationRequest(kind, **values)


def _with_environment(request: OperationRequest, env: Mapping[str, str]) -> OperationRequest:
    """``request`` with what the environment says where the flags say nothing."""
    changes: dict[str, Any] = {}
    if not request.continue_on_error and env.get("PULUMI_CONTINUE_ON_ERROR", "") in TRUE:
        changes["continue_on_error"] = True
    if request.run_program is None and env.get("PULUMI_RUN_PROGRAM", "") in TRUE:
        changes["run_program"] = True
    parallel = env.get("PULUMI_PARALLEL", "")
    if request.parallel is None and parallel:
        if not parallel.isdecimal():
            raise UsageError(f"PULUMI_PARALLEL is {parallel!r}: expected a whole number")
        changes["parallel"] = max(int(parallel), 1)
    return replace(request, **changes) if changes else request


def _approved(request: OperationRequest, world: World, refresh_always: bool) -> OperationRequest:
    """``request`` with its approval made plain; the project may want a refresh.

    Raises:
        ConfirmationMissing: when it changes something, was not approved, and nobody can be asked.
        UsageError: when its flags contradict each other.
    """
    if request.refresh is None and request.kind in ("preview", "up", "destroy"):
        request = replace(request, refresh=refresh_always)
    if request.kind == "preview":
        return request
    yes = request.yes or world.flag("PULUMI_SKIP_CONFIRMATIONS")
    if request.preview_only:
        if request.skip_preview:
            raise UsageError("--skip-preview and --preview-only cannot be used together")
        if request.yes:
            raise UsageError("--yes and --preview-only cannot be used together")
        return request
    yes = yes or request.skip_preview
    if not yes and not world.interactive:
        raise ConfirmationMissing(request.kind)
    return replace(request, yes=yes)
