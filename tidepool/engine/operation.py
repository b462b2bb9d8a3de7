"""Preview, up, refresh and destroy: from a request to a saved state.

An operation takes the stack's lock, recovers what an earlier one left behind, runs on a loop in a thread
of its own while the main thread runs the program, and saves what it came to.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidepool.engine.deployment.live import Entry, Graph
from tidepool.engine.errors import EngineError
from tidepool.engine.events import Op
from tidepool.engine.program_config import recorded
from tidepool.engine.providers.discovery import require_version
from tidepool.engine.request import KINDS, OperationRequest, World
from tidepool.engine.resource import Snapshot
from tidepool.engine.saved_state import SavedState
from tidepool.engine.state.store import UpdateInfo
from tidepool.engine.verbs.workspace import OpenStack, open_stack

if TYPE_CHECKING:
    from tidepool.engine.deployment.deployment import Result
    from tidepool.engine.running import Run

_NO_CHANGE: Final = frozenset({Op.SAME, Op.READ, Op.READ_DISCARD, Op.READ_REPLACEMENT})


def run(request: OperationRequest, world: World) -> int:
    """Do what ``request`` asks for; the exit code.

    Raises:
        EngineError: for what a person must be told, before anything was changed or after all was saved.
    """
    stack = open_stack(world, request.stack, request.config_file)
    require_version(stack.project.required_pulumi_version)
    stack = stack.with_overrides(request.config, path=request.config_path)
    # The program leaves its modules behind: only one can run in the process.
    own = world.owns_process
    if request.kind == "preview":
        return _preview(request, stack, in_process=own)
    if not request.skip_preview:
        code = _preview(request, stack, in_process=own and request.preview_only)
        if code or request.preview_only:
            return code
        if not request.yes and not _approves(request, world):
            return 0
    return _perform(request, stack, in_process=own)


def _preview(request: OperationRequest, stack: OpenStack, *, in_process: bool) -> int:
    state = SavedState(stack)
    with state.reading(request):
        request = _sparing_protected(request, state.base)
        if request.exclude_protected and _spares_all(request, state.base):
            return _report_all_spared(request, stack)
        run = _prepared(request, stack, state, preview=True, in_process=in_process)
        return run.run(lambda result: _exit_code(request, result, preview=True))


def _perform(request: OperationRequest, stack: OpenStack, *, in_process: bool) -> int:
    stack = stack.with_passphrase()
    state = SavedState(stack)
    with state.changing(request):
        request = _sparing_protected(request, state.base)
        if request.exclude_protected and _spares_all(request, state.base):
            state.abandon()
            return _report_all_spared(request, stack)
        began = int(time.time())

        def conclude(result: Result) -> int:
            state.save(result.snapshot)
            _record(request, stack, result, began)
            return _exit_code(request, result, preview=False)

        try:
            run = _prepared(request, stack, state, preview=False, in_process=in_process)
            code = run.run(conclude)
        finally:
            # Where it was not saved, what was done is in the journal: the next operation recovers it.
            state.abandon()
    if request.kind == "destroy" and not code:
        _report_what_is_left(request, stack)
    return code


def _prepared(
    request: OperationRequest, stack: OpenStack, state: SavedState, *, preview: bool, in_process: bool
) -> Run:
    # Late: it takes time to import, in which the key of the secrets is derived.
    from tidepool.engine.running import Run

    return Run(request, stack, state, preview=preview, in_process=in_process)


def _sparing_protected(request: OperationRequest, base: Snapshot) -> OperationRequest:
    if not request.exclude_protected:
        return request
    return replace(request, excludes=(*request.excludes, *_protected_with_needs(base)))


def _protected_with_needs(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the URNs of protected resources and of all that they depend on, in the order of the snapshot."""
    entries = [Entry(n, state) for n, state in enumerate(snapshot.resources)]
    graph = Graph(entries)
    kept: set[Entry] = set()
    for entry in entries:
        if entry.state.protect:
            kept.add(entry)
            kept |= graph.transitive_dependencies(entry)
    return tuple(e.urn for e in entries if e in kept)


def _spares_all(request: OperationRequest, base: Snapshot) -> bool:
    return bool(base.resources) and len(request.excludes) == len(base.resources)


def _report_all_spared(request: OperationRequest, stack: OpenStack) -> int:
    if not request.json:
        stack.world.say(
            "There were no unprotected resources to destroy. "
            f"There are still {len(request.excludes)} protected resources associated with this stack."
        )
    return 0


def _report_what_is_left(request: OperationRequest, stack: OpenStack) -> None:
    def say(text: str) -> None:
        if not request.json:
            stack.world.say(text)

    spared = len(request.excludes) if request.exclude_protected else 0
    if spared:
        say(
            "All unprotected resources were destroyed. "
            f"There are still {spared} protected resources associated with this stack."
        )
    elif request.remove:
        stack.backend.remove(stack.ref)
        stack.workspace.config_path(stack.ref).unlink(missing_ok=True)
        say("The resources in the stack have been deleted, and the history and configuration removed.")
    elif not request.targets:
        say(
            "The resources in the stack have been deleted, but the history and configuration "
            "associated with the stack are still maintained. \nIf you want to remove the stack "
            f"completely, run `pulumi stack rm {stack.workspace.shown(stack.ref)}`."
        )


def _exit_code(request: OperationRequest, result: Result, *, preview: bool) -> int:
    if result.result != "succeeded":
        return 1
    if request.expect_no_changes and any(n for op, n in result.changes.items() if op not in _NO_CHANGE):
        what = "proposed" if preview else "occurred"
        raise NoChangesExpected(f"no changes were expected but changes {what}")
    return 0


class NoChangesExpected(EngineError):
    """``--expect-no-changes`` was asked for, and there were some."""

    exit_code = 7


def _record(request: OperationRequest, stack: OpenStack, result: Result, began: int) -> None:
    update = UpdateInfo(
        kind=KINDS[request.kind],
        start_time=began,
        end_time=int(time.time()),
        result="succeeded" if result.result == "succeeded" else "failed",
        message=request.message,
        environment=_environment(request),
        config=recorded(stack.merged()),
        resource_changes={str(op): n for op, n in result.changes.items()},
    )
    stack.backend.add_history(stack.ref, update)


def _environment(request: OperationRequest) -> dict[str, str]:
    return {
        "exec.kind": request.exec_kind or "cli",
        **({"exec.agent": request.exec_agent} if request.exec_agent else {}),
        "pulumi.version": "tidepool-embedded",
    }


def _approves(request: OperationRequest, world: World) -> bool:
    """Ask the person at the terminal whether the operation is to be done."""
    while True:
        world.stdout.write(f"\nDo you want to perform this {KINDS[request.kind]}? [yes/no] ")
        world.stdout.flush()
        answer = world.input.readline()
        if not answer or answer.strip().lower() in ("n", "no"):
            world.say(f"confirmation declined, not proceeding with the {KINDS[request.kind]}")
            return False
        if answer.strip().lower() in ("y", "yes"):
            return True
