from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.providers.started import (
    PROVIDER_URN,
    SEED,
    Heard,
    calls,
    connected,
    fake,
    pid_of,
    until,
    urn,
    world,
)
from tidepool.engine import rpc
from tidepool.engine.events import PropertyDiff
from tidepool.engine.providers.contract import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    DiffUnavailable,
    Existing,
    InitializationFailed,
    ProviderDied,
    ProviderError,
)
from tidepool.engine.providers.plugin import PluginProvider
from tidepool.engine.values import UNKNOWN, Asset, Output, Properties, ResourceReference, Secret
from tidepool.engine.wire import to_struct

URN = urn("a")
NO_IGNORES: tuple[str, ...] = ()


def with_fake(
    folder: Path,
    work: Callable[[PluginProvider], Awaitable[Any]],
    configuration: Properties | None = None,
    **environ: str,
) -> Any:
    async def run() -> Any:
        async with fake(folder, configuration, **environ) as provider:
            return await work(provider)

    return asyncio.run(run())


async def check(provider: PluginProvider, news: Properties, preview: bool = False) -> CheckResult:
    return await provider.check(URN, {}, news, SEED, preview)


def test_a_resource_from_cradle_to_grave(tmp_path: Path) -> None:
    async def live(p: PluginProvider) -> None:
        checked = await check(p, {"value": [1, {"b": None}], "secret": Secret("hush")})
        assert checked == CheckResult({"value": [1, {"b": None}], "secret": Secret("hush"), "name": "a"})
        made = await p.create(URN, checked.inputs, 0, False)
        assert made == CreateResult("a-1", {**checked.inputs, "serial": 1})
        news = {**checked.inputs, "value": 2, "size": 5}
        diff = await p.diff(URN, Existing(made.id, checked.inputs, made.outputs), news, NO_IGNORES)
        assert diff.changes == "some"
        assert not diff.replaces
        assert diff.detailed_diff == {
            "value": PropertyDiff("update", True),
            "size": PropertyDiff("add", True),
        }
        updated = await p.update(
            URN, Existing(made.id, checked.inputs, made.outputs), news, 0, NO_IGNORES, False
        )
        assert updated.outputs == {**news, "serial": 1}
        found = await p.read(URN, Existing(made.id, news, updated.outputs))
        assert (found.id, found.inputs, found.outputs) == ("a-1", news, updated.outputs)
        await p.delete(URN, Existing(made.id, news, updated.outputs), 0)
        gone = await p.read(URN, Existing(made.id, news, updated.outputs))
        assert gone.id == ""

    with_fake(tmp_path, live)
    assert [e["op"] for e in world(tmp_path)] == ["create", "update", "delete"]
    assert world(tmp_path)[0]["props"]["secret"] == "hush"
    expected = "Handshake Configure Check Create Diff Update Read Delete Read Cancel"
    assert calls(tmp_path) == expected.split()


def test_a_change_that_replaces(tmp_path: Path) -> None:
    async def compare(p: PluginProvider) -> tuple[DiffResult, DiffResult, DiffResult]:
        old = {"name": "a", "replace": "x"}
        by_key = await p.diff(URN, Existing("a-1", old, old), {**old, "replace": "y"}, NO_IGNORES)
        by_name = await p.diff(URN, Existing("a-1", old, old), {**old, "name": "b"}, NO_IGNORES)
        ignored = await p.diff(URN, Existing("a-1", old, old), {**old, "name": "b"}, ("name",))
        return by_key, by_name, ignored

    by_key, by_name, ignored = with_fake(tmp_path, compare)
    assert (by_key.replace_keys, by_key.delete_before_replace) == (("replace",), False)
    assert by_key.detailed_diff == {"replace": PropertyDiff("update-replace", True)}
    assert (by_name.replace_keys, by_name.delete_before_replace) == (("name",), True)
    assert ignored.changes == "none"


def test_a_provider_may_leave_the_comparison_to_the_engine(tmp_path: Path) -> None:
    loose = urn("a", "fake:index:Loose")
    diff = with_fake(tmp_path, lambda p: p.diff(loose, Existing("a-1", {}, {}), {"value": 1}, NO_IGNORES))
    assert diff == DiffResult("unknown")


def test_a_preview_changes_nothing_and_keeps_what_is_unknown(tmp_path: Path) -> None:
    async def preview(p: PluginProvider) -> tuple[CheckResult, CreateResult, Properties]:
        checked = await check(p, {"value": UNKNOWN, "tags": [Secret(UNKNOWN)], "mint": True}, preview=True)
        made = await p.create(URN, checked.inputs, 0, True)
        updated = await p.update(URN, Existing("a-1", {}, {"serial": 7}), checked.inputs, 0, NO_IGNORES, True)
        return checked, made, updated.outputs

    checked, made, updated = with_fake(tmp_path, preview)
    assert checked.inputs == {"value": UNKNOWN, "tags": [Secret(UNKNOWN)], "mint": True, "name": "a"}
    assert made == CreateResult("", {**checked.inputs, "serial": UNKNOWN, "token": Secret(UNKNOWN)})
    assert updated["serial"] == 7
    assert world(tmp_path) == []


def test_inputs_that_are_refused_are_named(tmp_path: Path) -> None:
    refused = with_fake(tmp_path, lambda p: check(p, {"size": "big"}))
    assert refused.failures == (CheckFailure("size", "must be a number"),)


def test_an_error_is_the_providers_own_text(tmp_path: Path) -> None:
    with pytest.raises(ProviderError) as refused:
        with_fake(tmp_path, lambda p: p.create(URN, {"name": "a", "fail": "create"}, 0, False))
    assert str(refused.value) == "create of a failed"
    with pytest.raises(ProviderError, match="unknown resource type fake:index:None"):
        with_fake(tmp_path, lambda p: p.check(urn("a", "fake:index:None"), {}, {}, SEED, False))


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("check", lambda p: check(p, {})),
        ("diff", lambda p: p.diff(URN, Existing("a-1", {}, {}), {"name": "b"}, NO_IGNORES)),
        ("create", lambda p: p.create(URN, {}, 0, False)),
        ("read", lambda p: p.read(URN, Existing("a-1", {}, {}))),
        ("update", lambda p: p.update(URN, Existing("a-1", {}, {}), {}, 0, NO_IGNORES, False)),
        ("delete", lambda p: p.delete(URN, Existing("a-1", {}, {}), 0)),
    ],
)
def test_which_failures_leave_open_what_the_resource_is(
    method: str, call: Callable[[PluginProvider], Awaitable[Any]], tmp_path: Path
) -> None:
    """As the CLI has it, a create that failed left nothing behind."""
    with pytest.raises(ProviderError) as refused:
        with_fake(tmp_path, call, FAKE_FAULTS=json.dumps({f"{method}:a": "fail"}))
    assert refused.value.state_unknown == (method in ("read", "update", "delete"))


def test_one_that_exists_but_did_not_come_up_is_kept(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> tuple[InitializationFailed, InitializationFailed]:
        inputs = {"name": "a", "secret": Secret("s"), "fail": "init"}
        with pytest.raises(InitializationFailed) as created:
            await p.create(URN, inputs, 0, False)
        with pytest.raises(InitializationFailed) as read:
            await p.read(URN, Existing("a-1", inputs, {**inputs, "serial": 1}))
        return created.value, read.value

    created, read = with_fake(tmp_path, work, FAKE_FAULTS='{"read:a": "init"}')
    assert created.id == read.id == "a-1"
    assert created.outputs == {"name": "a", "secret": Secret("s"), "fail": "init", "serial": 1}
    assert created.reasons == ("it did not come up", "nor will it")
    assert created.inputs is None
    assert read.inputs == {"name": "a", "secret": Secret("s"), "fail": "init"}


def test_one_that_did_not_come_up_may_be_large(tmp_path: Path) -> None:
    """What it is comes beside the error, as metadata: a job of Nomad is more than the 16 KiB that gRPC takes of these by itself."""
    inputs = {"name": "a", "fail": "init", "text": "x" * 200_000}

    async def work(p: PluginProvider) -> InitializationFailed:
        with pytest.raises(InitializationFailed) as created:
            await p.create(URN, inputs, 0, False)
        return created.value

    assert with_fake(tmp_path, work).outputs == {**inputs, "serial": 1}


@pytest.mark.parametrize(("fault", "code", "effects"), [("die", 7, 0), ("lost-answer", 8, 1)])
def test_the_death_of_a_plugin_is_told_from_an_error(
    tmp_path: Path, fault: str, code: int, effects: int
) -> None:
    async def work(p: PluginProvider) -> tuple[str, str]:
        with pytest.raises(ProviderDied) as died:
            await p.create(URN, {"name": "a"}, 0, False)
        with pytest.raises(ProviderDied) as gone:
            await check(p, {})
        return str(died.value), str(gone.value)

    died, gone = with_fake(tmp_path, work, FAKE_FAULTS=f'{{"create:a": "{fault}"}}')
    assert f"plugin fake died while Create of {URN} was under way" in died
    assert f"it ended with exit code {code}" in died
    assert gone.startswith("plugin fake is gone: it ended with")
    assert len(world(tmp_path)) == effects


def test_a_plugin_that_is_killed_takes_all_its_calls_with_it(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> list[Any]:
        names = ("a", "b", "c")
        creates = [asyncio.ensure_future(p.create(urn(n), {"name": n}, 0, False)) for n in names]
        await until(lambda: calls(tmp_path).count("Create") == len(names))
        os.kill(pid_of(p), signal.SIGKILL)
        return await asyncio.gather(*creates, return_exceptions=True)

    ends = with_fake(tmp_path, work, FAKE_FAULTS='{"create:*": "hang:60"}')
    assert [type(e) for e in ends] == [ProviderDied] * 3
    assert all("was killed by SIGKILL" in str(e) for e in ends)


def test_a_call_that_is_given_up_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> None:
        create = asyncio.ensure_future(p.create(URN, {"name": "a"}, 0, False))
        await until(lambda: "Create" in calls(tmp_path))
        create.cancel()
        with pytest.raises(asyncio.CancelledError):
            await create

    with_fake(tmp_path, work, FAKE_FAULTS='{"create:a": "hang:60"}')


def test_a_cancelled_operation_ends_early(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> str:
        slow = urn("a", "fake:index:Slow")
        create = asyncio.ensure_future(p.create(slow, {"name": "a", "seconds": 60}, 0, False))
        await until(lambda: "Create" in calls(tmp_path))
        await p.cancel()
        with pytest.raises(ProviderError, match="was cancelled") as cancelled:
            await create
        assert not isinstance(cancelled.value, ProviderDied)
        return str(cancelled.value)

    assert with_fake(tmp_path, work) == "the operation was cancelled"


class TestAnOldPlugin:
    """Without handshake: it takes no secrets and knows no previews."""

    def test_secrets_are_sent_bare_and_made_secret_again(self, tmp_path: Path) -> None:
        async def work(p: PluginProvider) -> tuple[CheckResult, CreateResult]:
            news = {"secret": Secret("s"), "tags": {"a": Secret(1), "b": 2}, "value": [1, Secret(2)]}
            checked = await check(p, news)
            return checked, await p.create(URN, checked.inputs, 0, False)

        checked, made = with_fake(tmp_path, work, FAKE_PLAIN="1")
        expected = {
            "secret": Secret("s"),
            "tags": {"a": Secret(1), "b": 2},
            "value": Secret([1, 2]),
            "name": "a",
        }
        assert checked.inputs == expected
        assert made.outputs == {**expected, "serial": 1}

    def test_functions_of_secrets_are_secret(self, tmp_path: Path) -> None:
        result = with_fake(
            tmp_path, lambda p: p.invoke("fake:index:echo", {"a": Secret(1), "b": 2}, False), FAKE_PLAIN="1"
        )
        assert result.returns == {"a": Secret(1), "b": Secret(2)}

    def test_in_a_preview_it_is_not_asked(self, tmp_path: Path) -> None:
        made = with_fake(tmp_path, lambda p: p.create(URN, {"a": 1}, 0, True), FAKE_PLAIN="1")
        assert made == CreateResult("", {"a": 1})
        assert "Create" not in calls(tmp_path)


def test_a_provider_whose_configuration_is_unknown_is_not_called(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> None:
        assert await check(p, {"a": 1}, preview=True) == CheckResult({"a": 1})
        assert await p.create(URN, {"a": 1}, 0, True) == CreateResult("", {})
        assert (await p.update(URN, Existing("i", {}, {}), {"a": 1}, 0, NO_IGNORES, True)).outputs == {}
        assert (await p.invoke("fake:index:echo", {}, True)).returns == {}
        with pytest.raises(DiffUnavailable, match="inputs that are not known during preview"):
            await p.diff(URN, Existing("i", {}, {}), {}, NO_IGNORES)
        with pytest.raises(ProviderError, match="is not known, so"):
            await p.delete(URN, Existing("i", {}, {}), 0)

    with_fake(tmp_path, work, {"account": Secret(UNKNOWN)})
    assert set(calls(tmp_path)) == {"Handshake", "Cancel"}


def test_configuration_is_checked_and_compared(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> None:
        checked = await p.check_config(PROVIDER_URN, {}, {"account": Secret("x"), "region": UNKNOWN})
        assert checked == CheckResult({"account": Secret("x"), "region": UNKNOWN})
        refused = await p.check_config(PROVIDER_URN, {}, {"invalid": True})
        assert refused.failures == (CheckFailure("invalid", "must not be given"),)
        old = Existing("", {"account": "x"}, {"account": "x"})
        diff = await p.diff_config(PROVIDER_URN, old, {"account": "y"}, NO_IGNORES)
        assert (diff.changes, diff.replace_keys) == ("some", ("account",))

    with_fake(tmp_path, work)


def test_a_failed_configuration_fails_the_calls_that_need_it(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ProviderError, match=r"^the configuration is unusable$"):
            with_fake(tmp_path, lambda p: check(p, {}), {"unusable": True})


def test_calls_before_the_configuration_are_an_error(tmp_path: Path) -> None:
    async def run() -> None:
        async with connected(tmp_path) as provider:
            with pytest.raises(ProviderError, match="used before it was configured"):
                await check(provider, {})
            assert await provider.version() == "1.2.3"

    asyncio.run(run())


def test_functions(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> None:
        args = {"a": Secret([1]), "r": ResourceReference(URN, "i-1"), "f": Asset("1" * 64, text="x")}
        assert (await p.invoke("fake:index:echo", args, False)).returns == args
        refused = await p.invoke("fake:index:reject", {}, False)
        assert refused.failures == (CheckFailure("value", "is refused"),)
        with pytest.raises(ProviderError, match=r"^the function failed$"):
            await p.invoke("fake:index:fail", {}, False)

    with_fake(tmp_path, work)


def test_methods_keep_outputs_and_their_dependencies(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> None:
        args = {
            "__self__": ResourceReference(urn("pair", "fake:index:Pair")),
            "prefix": Output("hello ", dependencies=(URN,)),
        }
        request = rpc.messages("provider_pb2").CallRequest(
            tok="fake:index:Pair/describe", args=to_struct(args, outputs=True)
        )
        result = await p.call(request)
        assert result.returns == {"text": "hello pair"}
        assert result.return_dependencies == {"text": (urn("pair", "fake:index:Pair"),)}

    with_fake(tmp_path, work)


def test_components_that_fail_say_why(tmp_path: Path) -> None:
    request = rpc.messages("provider_pb2").ConstructRequest(
        type="fake:index:Pair", name="pair", inputs=to_struct({"fail": "construct"})
    )
    with pytest.raises(ProviderError, match=r"^the component failed$"):
        with_fake(tmp_path, lambda p: p.construct(request))
    with pytest.raises(ProviderError, match="must support secrets"):
        with_fake(tmp_path, lambda p: p.construct(request), FAKE_PLAIN="1")


def test_contents_of_assets_that_were_left_out_come_back(tmp_path: Path) -> None:
    async def work(p: PluginProvider) -> None:
        inputs = {"name": "a", "value": Asset("1" * 64, text="long")}
        made = await p.create(URN, inputs, 0, False)
        found = await p.read(URN, Existing(made.id, inputs, made.outputs))
        assert found.inputs == inputs
        assert found.outputs == made.outputs

    with_fake(tmp_path, work)


def test_what_a_plugin_cannot_take_is_an_error_of_the_resource(tmp_path: Path) -> None:
    raw = b"\xff".decode("utf-8", "surrogateescape")
    with pytest.raises(ProviderError, match="'value' is a string that contains non-UTF8 bytes"):
        with_fake(tmp_path, lambda p: check(p, {"value": raw}))


_DYNAMIC = """
import base64, sys
import dill
from pulumi.dynamic import CreateResult, ResourceProvider

class Upper(ResourceProvider):
    def create(self, props):
        print("creating", flush=True)
        return CreateResult("id-1", {"text": props["text"].upper()})

sys.stdout.write(base64.b64encode(dill.dumps(Upper(), recurse=True)).decode())
"""


def test_dynamic_providers(tmp_path: Path) -> None:
    import subprocess
    import sys

    from tidepool.engine.providers.discovery import PluginRequest, find

    serialized = subprocess.run(
        [sys.executable, "-c", _DYNAMIC], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    command = find(
        PluginRequest("pulumi-python"),
        project_plugins=[],
        environ={},
        pulumi_home=tmp_path,
        python=sys.executable,
    )
    output_of = Heard()

    async def run() -> CreateResult:
        async with connected(tmp_path, command, output_of) as provider:
            await provider.configure("urn:pulumi:dev::p::pulumi:providers:pulumi-python::default", "1", {})
            dynamic = "urn:pulumi:dev::p::pulumi-python:dynamic:Resource::r"
            news = {"__provider": serialized, "text": Secret("abc")}
            checked = await provider.check(dynamic, {}, news, SEED, False)
            assert checked == CheckResult(news)
            return await provider.create(dynamic, checked.inputs, 0, False)

    made = asyncio.run(run())
    assert made == CreateResult("id-1", {"__provider": serialized, "text": Secret("ABC")})
    assert ("creating", False) in output_of.lines
