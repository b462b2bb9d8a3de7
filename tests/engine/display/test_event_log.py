"""The event log: byte for byte what the CLI writes, and what the Automation API can read."""

from __future__ import annotations

import json
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.automation.events import EngineEvent
from pulumi.runtime.proto import events_pb2_grpc

from tests.engine.display import replay, streams
from tidepool.engine import json_text
from tidepool.engine.display.event_log import (
    EventLog,
    EventLogError,
    LineSink,
    event_json,
    file_sink,
    open_sink,
)
from tidepool.engine.events import Cancel, Diagnostic, Event, Op, Prelude, ResourcePre, Stdout
from tidepool.engine.values import UNKNOWN, Asset, Output, Secret

NAMES = sorted(path.stem for path in replay.RECORDED.glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_a_log_is_written_byte_for_byte_as_the_cli_does(name: str) -> None:
    for text in (replay.RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        ours = json_text.dumps(event_json(replay.event(line), line["sequence"], line["timestamp"]))
        # Go writes 0.00001 where Python writes 1e-05: the same number.
        assert ours.replace("1e-05", "0.00001") == text


def test_the_sdk_reads_every_kind_of_event() -> None:
    kinds = set()
    step = streams.create("web", {"size": 1})
    extra: list[Event] = [
        Stdout("text"),
        Diagnostic("warning", "careful", streams.server("web")),
        streams.failed(step),
    ]
    for event in [*streams.whole(step, outputs={"ip": "1.2.3.4"}), *extra]:
        parsed = EngineEvent.from_json(event_json(event, 7, 1_700_000_000))
        kinds |= {k for k, v in vars(parsed).items() if k.endswith("_event") and v is not None}
        assert (parsed.sequence, parsed.timestamp) == (7, 1_700_000_000)
    assert kinds == {
        "prelude_event",
        "resource_pre_event",
        "res_outputs_event",
        "res_op_failed_event",
        "diagnostic_event",
        "stdout_event",
        "summary_event",
        "cancel_event",
    }


def test_what_json_has_no_word_for() -> None:
    inputs = {
        "s": Secret({"inner": "hush"}),
        "o": Output("hush", secret=True),
        "u": UNKNOWN,
        "a": Asset("abc", text="hush hush"),
    }
    body = event_json(ResourcePre(streams.create("x", inputs), False), 0, 0)["resourcePreEvent"]
    found = body["metadata"]["new"]["inputs"]
    masked = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "ciphertext": '"[secret]"',
    }
    assert found["s"]["ciphertext"] == "[secret]"
    assert found["s"].keys() == found["o"].keys() == masked.keys()
    assert found["u"] == "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    assert found["a"]["text"] == "<contents elided>"
    assert "hush" not in json.dumps(body)


def test_no_detailed_diff_is_not_an_empty_one() -> None:
    state = streams.state(streams.server("x"))
    without = event_json(ResourcePre(streams.step(Op.UPDATE, state, state), False), 0, 0)
    empty = event_json(ResourcePre(streams.step(Op.UPDATE, state, state, detailed_diff={}), False), 0, 0)
    assert without["resourcePreEvent"]["metadata"]["detailedDiff"] is None
    assert empty["resourcePreEvent"]["metadata"]["detailedDiff"] == {}


def test_colours_are_kept_as_markup_or_taken_out() -> None:
    event = Diagnostic("error", "<{%fg 3%}>look<{%reset%}> \x1b[31mhere\x1b[0m")
    plain = event_json(event, 0, 0)["diagnosticEvent"]
    assert plain == {"prefix": "error: ", "message": "look here\n", "color": "never", "severity": "error"}
    raw = event_json(event, 0, 0, raw_color=True)["diagnosticEvent"]
    assert raw["prefix"] == "<{%fg 1%}>error: <{%reset%}>"
    assert raw["message"] == "<{%reset%}><{%fg 3%}>look<{%reset%}> here<{%reset%}>\n"
    assert raw["color"] == "raw"


def test_a_reader_finds_each_event_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("what was here before\n")
    log = EventLog(open_sink(str(path)), lambda: 1.9)
    for count, event in enumerate(streams.whole(streams.create("web")), start=1):
        log.event(event)
        lines = path.read_text().splitlines()
        assert len(lines) == count
        assert json.loads(lines[-1])["sequence"] == count - 1
        assert json.loads(lines[-1])["timestamp"] == 1
    log.close()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match=r"missing/log.*No such file"):
        open_sink(str(tmp_path / "missing" / "log"))


def test_a_full_disk_does_not_stop_the_operation(tmp_path: Path) -> None:
    sink = file_sink(tmp_path / "log")
    log = EventLog(sink, lambda: 0)
    log.event(Prelude({}))

    def full(text: str) -> None:
        raise OSError(28, "No space left on device")

    broken = EventLog(LineSink(full, sink.close), lambda: 0)
    broken.event(Prelude({}))
    broken.event(Cancel())
    with pytest.raises(EventLogError, match=r"not complete.*No space left"):
        broken.close()


def test_events_are_sent_to_a_server_in_order() -> None:
    taken: list[EngineEvent] = []

    class Server(events_pb2_grpc.EventsServicer):
        def StreamEvents(self, requests: Any, context: Any) -> empty_pb2.Empty:  # noqa: N802
            taken.extend(EngineEvent.from_json(json.loads(request.event)) for request in requests)
            return empty_pb2.Empty()

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    events_pb2_grpc.add_EventsServicer_to_server(Server(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        log = EventLog(open_sink(f"tcp://127.0.0.1:{port}"), lambda: 0)
        sent = list(streams.whole(*(streams.create(f"n{i}") for i in range(50))))
        for event in sent:
            log.event(event)
        log.close()
    finally:
        server.stop(grace=None).wait()
    assert [event.sequence for event in taken] == list(range(len(sent)))
    assert taken[-1].cancel_event is not None
