"""What the comparison of two runs rests on: it must see what matters and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.scenarios import observe, order
from tests.engine.scenarios.agreed import REMEDY, agreed
from tests.engine.scenarios.compare import differences, without
from tests.engine.scenarios.format import load, load_all
from tests.engine.scenarios.normalise import Normaliser, instant, resource
from tests.engine.scenarios.order import Span
from tidepool.toolchain import PULUMI, read_source

A, B, C = (f"urn:pulumi:dev::p::t::{name}" for name in "abc")
UUIDS = ("11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000")


def test_order_is_kept_for_dependents_and_for_one_resource_only() -> None:
    spans = [
        Span("create", A, 0, 1),
        Span("create", B, 2, 3),
        Span("create", C, 4, 5),
        Span("delete", A, 6, 7),
    ]
    found = order.pairs(spans, {(B, A)})
    assert found == [
        f"create {A} < create {B}",
        f"create {A} < delete {A}",
        f"create {B} < delete {A}",
    ]


def test_what_runs_side_by_side_has_no_order() -> None:
    assert order.pairs([Span("create", A, 0, 3), Span("create", B, 1, 2)], {(B, A)}) == []


def test_dependencies_of_all_kinds_are_edges() -> None:
    found = order.edges(
        [
            {
                "urn": A,
                "parent": B,
                "provider": f"{C}::id",
                "deletedWith": "d",
                "propertyDependencies": {"x": ["e"]},
            }
        ]
    )
    assert found == {(A, B), (A, C), (A, "d"), (A, "e")}


def test_random_ids_get_the_same_names_in_two_runs() -> None:
    texts = []
    for id in UUIDS:
        names = Normaliser("/tmp/x", "p")
        state = {"urn": "urn:pulumi:dev::p::pulumi:providers:cloud::default", "id": id}
        names.learn([state])
        texts.append(names.values([state, f"{state['urn']}::{id}"]))
    assert texts[0] == texts[1]
    assert UUIDS[0] not in str(texts[0])


def test_a_new_id_of_one_resource_is_seen() -> None:
    names = Normaliser("/tmp/x", "p")
    states = [{"urn": A, "id": id} for id in UUIDS]
    names.learn(states)
    first, second = names.values(states)
    assert first["id"] != second["id"]


def test_secrets_are_told_from_plain_values() -> None:
    names = Normaliser("/tmp/x", "p")
    kept = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": '"x"'}
    assert names.values({"a": kept, "b": "x"}) == {"a": {"secret": "x"}, "b": "x"}


def test_messages_lose_frames_and_times_but_not_their_text() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/a/b.py", line 3, in f\n    g()\nValueError: no (3s)\n'
    )
    assert Normaliser("/tmp/x", "p").message(text) == ["ValueError: no (<duration>)"]


@pytest.mark.parametrize(
    "noise",
    [
        "object address  : 0x7f2\nobject type name: KeyboardInterrupt\nlost sys.stderr\n",
        'Exception ignored in: <module>\n  File "threading.py", line 1590\n    lock.acquire()\nKeyboardInterrupt: \n',
        "Fatal Python error: _enter_buffered_busy: no\nPython runtime state: finalizing (1)\n\nCurrent thread 0x2 (most\n",
    ],
)
def test_what_python_says_of_an_interrupt_at_its_end_is_no_message(noise: str) -> None:
    assert Normaliser("/tmp/x", "p").message(f"error: no\n{noise}done\n") == ["error: no", "done"]


def test_the_last_words_of_a_program_whose_deployment_was_ended_are_no_message() -> None:
    failed = "Program failed with an unhandled exception:\n"
    call = 'grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tdetails = "shut down"\n>\n'
    ended = f"{failed}{call}Exception: resource monitor shut down\n"
    normaliser = Normaliser("/tmp/x", "proj")
    assert normaliser.message(f"bad has a problem\n{ended}") == ["bad has a problem"]
    own = f"{failed}ValueError: its own\n"
    assert normaliser.message(own + ended) == own.splitlines()


def test_what_python_ignored_that_is_no_interrupt_is_a_message() -> None:
    text = "Exception ignored in: <function f>\nValueError: no\n"
    assert Normaliser("/tmp/x", "p").message(text) == text.splitlines()


def test_diagnostics_are_compared_whatever_the_order_of_their_resources() -> None:
    rows, outputs = "Diagnostics:\n", "Outputs:\n    b: 1\n    a: 2\n"
    of_a = "  cloud:index:Server (a):\n    one\n    two\n\n    three\n\n"
    of_b = "  cloud:index:Server (b):\n    four\n\n"
    normaliser = Normaliser("/tmp/x", "proj")
    lines = normaliser.message(rows + of_a + of_b + outputs)
    assert lines == normaliser.message(rows + of_b + of_a + outputs)
    assert lines == [line for line in (rows + of_a + of_b + outputs).splitlines() if line]
    swapped = of_a.replace("one\n    two", "two\n    one")
    assert lines != normaliser.message(rows + swapped + of_b + outputs), (
        "the lines of one message keep their order"
    )


def test_times_become_steps() -> None:
    raw = {"created": "2026-01-01T00:00:00.10Z", "modified": "2026-01-01T00:00:00.2Z", "stackTrace": [{}]}
    steps = {instant("2026-01-01T00:00:00.1Z"): 1, instant("2026-01-01T00:00:00.200Z"): 4}
    assert resource(raw, steps) == {"created": 1, "modified": 4}


def test_a_state_out_of_order_is_seen() -> None:
    names = Normaliser("/tmp/x", "p")
    resources = [{"urn": B, "dependencies": [A]}, {"urn": A}]
    assert observe.state({"resources": resources}, {}, names)["out of order"] == ["@t::b before @t::a"]
    assert observe.state({"resources": resources[::-1]}, {}, names)["out of order"] == []


def test_a_place_in_an_environment_is_not_in_the_project() -> None:
    inside = {"sourcePosition": "project:///infra/__main__.py#3"}
    assert resource(inside, {}) == inside
    assert resource({"sourcePosition": "project:///venv/lib/python3/site-packages/pulumi/a.py#3"}, {}) == {}


def test_a_leak_is_found() -> None:
    assert observe.leaks({"stdout": "my hunter2", "log": "-"}, ["hunter2"]) == ["hunter2 in stdout"]


def test_differences_name_the_part() -> None:
    report = differences({"exit code": 0, "same": 1}, {"exit code": 1, "same": 1})
    assert "exit code" in report[0]
    assert not any("same" in line for line in report)
    assert differences({"a": [1]}, {"a": [1]}) == []
    assert differences({}, {"more": 1}) != []


def test_parts_can_be_left_out_within_a_key() -> None:
    seen = {"state": {"resources": [1], "pending": [2]}, "messages": []}
    assert without(seen, ("state.pending", "messages")) == {"state": {"resources": [1]}}


def test_an_unknown_key_of_a_step_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text("about: x\nsteps:\n- {do: up, progam: 2}\n")
    with pytest.raises(ValueError, match="progam"):
        load(tmp_path)


def test_both_agreed_on_scenarios_as_they_are() -> None:
    scenarios = load_all(Path(__file__).with_name("programs"))
    version = f"v{read_source(PULUMI).version}"
    changed = [each.name for each in scenarios if not each.is_by_both and agreed(each, version) is None]
    assert not changed, f"these were changed, or what plays them was: {REMEDY}"
