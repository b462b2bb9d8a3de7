"""From the command lines that the Automation API sends to the engine's requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.engine.verbs.worlds import Folder
from tidepool.engine.command import understand
from tidepool.engine.errors import ConfirmationMissing, NotSupportedError, UsageError
from tidepool.engine.request import OperationRequest, World
from tidepool.engine.verbs import operations
from tidepool.engine.verbs.operations import _approved, _with_environment


def request_of(folder: Folder, line: str) -> OperationRequest:
    request, _ = understood(folder.world(), line)
    return request


def understood(world: World, line: str) -> tuple[OperationRequest, World]:
    """The request that a command line comes to, and the world in which it is to be carried out."""
    verb, world = understand(line.split(), world)
    with patch.object(operations, "_run") as carry_out:
        verb(world)
    (request, world), _ = carry_out.call_args
    return request, world


def test_up_of_an_inline_program(folder: Folder) -> None:
    line = (
        "--non-interactive up --yes --skip-preview --message hello --expect-no-changes --diff "
        "--replace a --replace b --target c --target-dependents --exclude-dependents --parallel 4 --color never "
        "--logflow --verbose 9 --logtostderr --tracing file:x --debug --suppress-outputs --suppress-progress "
        "--continue-on-error --refresh --config-file other.yaml --run-program=true --client=127.0.0.1:99 "
        "--exec-kind auto.inline --event-log tcp://127.0.0.1:98 --stack organization/shop/dev"
    )
    request, world = understood(replace(folder.world(), interactive=True), line)
    assert request == OperationRequest(
        "up",
        stack="organization/shop/dev",
        yes=True,
        skip_preview=True,
        message="hello",
        expect_no_changes=True,
        diff=True,
        replace=("a", "b"),
        targets=("c",),
        target_dependents=True,
        exclude_dependents=True,
        parallel=4,
        debug=True,
        suppress_outputs=True,
        suppress_progress=True,
        continue_on_error=True,
        refresh=True,
        config_file="other.yaml",
        run_program=True,
        client="127.0.0.1:99",
        exec_kind="auto.inline",
        event_log="tcp://127.0.0.1:98",
    )
    assert (world.color, world.interactive, world.verbosity) == ("never", False, 9)
    assert world.log_flow
    assert world.log_to_stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("preview --json", OperationRequest("preview", json=True)),
        ("preview --output json", OperationRequest("preview", json=True)),
        ("preview --target-replace a", OperationRequest("preview", targets=("a",), replace=("a",))),
        (
            "up -c a=b --config c=d --config-path",
            OperationRequest("up", config=("a=b", "c=d"), config_path=True),
        ),
        ("up -p 0", OperationRequest("up", parallel=1)),
        ("up --refresh=false", OperationRequest("up", refresh=False)),
        ("refresh --clear-pending-creates", OperationRequest("refresh", clear_pending_creates=True)),
        ("refresh --preview-only -x a", OperationRequest("refresh", preview_only=True, excludes=("a",))),
        ("destroy --exclude-protected", OperationRequest("destroy", exclude_protected=True)),
        ("down --remove", OperationRequest("destroy", remove=True)),
    ],
)
def test_requests(folder: Folder, line: str, expected: OperationRequest) -> None:
    assert request_of(folder, line) == expected


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("up --refresh=perhaps", UsageError, "unable to determine value for --refresh"),
        (
            "destroy --exclude-protected -t a",
            UsageError,
            "you cannot specify --target and --exclude-protected",
        ),
        ("destroy --remove -t a", UsageError, "cannot use --target with --remove"),
        ("up https://example.org/template", NotSupportedError, "from the template"),
        ("--color pink up", UsageError, "unsupported color option: 'pink'"),
    ],
)
def test_mistakes(folder: Folder, line: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        request_of(folder, line)


@pytest.mark.parametrize(
    ("env", "before", "after"),
    [
        ({"PULUMI_CONTINUE_ON_ERROR": "true"}, {}, {"continue_on_error": True}),
        ({"PULUMI_RUN_PROGRAM": "1"}, {}, {"run_program": True}),
        ({"PULUMI_RUN_PROGRAM": "1"}, {"run_program": False}, {"run_program": False}),
        ({"PULUMI_PARALLEL": "3"}, {}, {"parallel": 3}),
        ({"PULUMI_PARALLEL": "3"}, {"parallel": 5}, {"parallel": 5}),
    ],
)
def test_environment_fills_what_flags_leave_open(
    env: dict[str, str], before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert _with_environment(OperationRequest("up", **before), env) == OperationRequest("up", **after)


def test_parallel_of_the_environment_must_be_a_number() -> None:
    with pytest.raises(UsageError, match="PULUMI_PARALLEL is 'many'"):
        _with_environment(OperationRequest("up"), {"PULUMI_PARALLEL": "many"})


@pytest.mark.parametrize(("kind", "code"), [("up", 2), ("destroy", 2), ("refresh", 1)])
def test_changes_need_approval_where_nobody_can_be_asked(folder: Folder, kind: Any, code: int) -> None:
    world = folder.world()
    with pytest.raises(ConfirmationMissing) as caught:
        _approved(OperationRequest(kind), world, False)
    assert caught.value.exit_code == code
    assert _approved(OperationRequest(kind, yes=True), world, False).yes
    assert _approved(OperationRequest(kind, skip_preview=True), world, False).yes
    assert not _approved(OperationRequest(kind, preview_only=True), world, False).yes
    assert not _approved(OperationRequest(kind), replace(world, interactive=True), False).yes


def test_contradicting_approvals(folder: Folder) -> None:
    both = OperationRequest("destroy", preview_only=True)
    for request in (replace(both, yes=True), replace(both, skip_preview=True)):
        with pytest.raises(UsageError, match="cannot be used together"):
            _approved(request, folder.world(), False)


def test_project_asks_for_refresh(folder: Folder) -> None:
    assert _approved(OperationRequest("preview"), folder.world(), True).refresh
    assert not _approved(OperationRequest("preview", refresh=False), folder.world(), True).refresh


def test_too_few_arguments_show_the_help(folder: Folder) -> None:
    answer = folder.run("stack", "rename")
    assert "pulumi stack rename <new-name>" in answer.stdout
    assert answer.stderr == "error: accepts 1 arg(s), received 0\n"
    assert answer.code == UsageError.exit_code
