"""Lines where there is no terminal."""

from __future__ import annotations

import io
from textwrap import dedent

from tests.engine.display import streams
from tidepool.engine.display.plain import PlainDisplay
from tidepool.engine.display.settings import Settings
from tidepool.engine.display.show import make_display
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Op,
    Prelude,
    ResourceFailed,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    Summary,
)


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def shown(*events: Event, settings: Settings | None = None, clock: Clock | None = None) -> str:
    out = io.StringIO()
    display = PlainDisplay(out, settings or Settings("update", False, "dev", "proj"), clock or Clock())
    for event in events:
        display.event(event)
    display.close()
    return out.getvalue()


def test_a_failure_from_beginning_to_end() -> None:
    step = streams.create("web", {"size": 1})
    text = shown(
        Prelude({}),
        ResourcePre(streams.root(), False),
        ResourcePre(step, False),
        Diagnostic("error", "no quota\nleft\n", step.urn),
        ResourceFailed(step),
        Diagnostic("error", "update failed"),
        Summary(False, False, 61.2, {Op.CREATE: 1}, "failed"),
    )
    assert text == dedent("""\
        Updating (dev):

         +  pulumi:pulumi:Stack proj-dev creating (0s)\x20
         +  cloud:index:Server web creating (0s)\x20
         +  cloud:index:Server web creating (0s) error: no quota
         +  cloud:index:Server web **creating failed** error: no quota
         +  pulumi:pulumi:Stack proj-dev creating (0s) error: update failed
         +  pulumi:pulumi:Stack proj-dev **creating failed** 1 error
        Diagnostics:
          pulumi:pulumi:Stack (proj-dev):
            error: update failed

          cloud:index:Server (web):
            error: no quota
            left

        Resources:
            + 1 created
            2 errored

        Duration: 1m2s

        """)


def test_elapsed_times_are_those_of_the_clock() -> None:
    clock = Clock()
    out = io.StringIO()
    display = PlainDisplay(out, Settings("update", False, "dev", "proj"), clock)
    slow, quick = streams.create("slow"), streams.create("quick")
    display.event(ResourcePre(slow, False))
    clock.time += 2.5
    display.event(Diagnostic("info", "half way", slow.urn, ephemeral=True))
    display.event(ResourcePre(quick, False))
    clock.time += 0.125
    display.event(ResourceOutputs(quick, False))
    display.event(ResourceOutputs(slow, False))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert " +  cloud:index:Server slow creating (2s) half way" in lines
    assert " +  cloud:index:Server quick created (0.12s)" in lines
    assert " +  cloud:index:Server slow created (2s) half way" in lines
    display.close()
    assert "Diagnostics:" not in out.getvalue(), "an ephemeral message is not kept"


def test_a_step_that_never_ended_is_told_as_interrupted() -> None:
    text = shown(ResourcePre(streams.create("web"), False))
    assert " +  cloud:index:Server web creating (interrupted)" in text
    assert "created" not in text


def test_changes_are_named() -> None:
    old = streams.state(streams.server("web"), {"size": 1, "gone": True, "same": "s", "__hidden": 1})
    new = streams.state(
        streams.server("web"), {"size": 2, "tags": {"a": "b"}, "same": "s", "__hidden": 2}, protect=True
    )
    step = streams.step(Op.UPDATE, old, new)
    assert " ~  cloud:index:Server web updating (0s) [diff: +tags-gone~protect,size]" in shown(
        ResourcePre(step, False)
    )
    some = streams.step(Op.UPDATE, old, new, diffs=("tags",))
    assert "[diff: +tags]" in shown(ResourcePre(some, False))


def test_dots_are_written_while_nothing_happens_and_end_before_the_next_line() -> None:
    out = io.StringIO()
    display = PlainDisplay(out, Settings("update", False, "dev", "proj"), Clock())
    display.event(Prelude({}))
    display.tick()
    display.tick()
    display.event(Stdout("something"))
    assert out.getvalue() == "Updating (dev):\n\n@ updating.....\nsomething\n"
    quiet = io.StringIO()
    display = PlainDisplay(quiet, Settings("update", False, "dev", "proj", suppress_progress=True), Clock())
    display.event(Prelude({}))
    display.tick()
    assert "@" not in quiet.getvalue()


def test_reads_are_mentioned_and_shown_on_demand() -> None:
    state = streams.state(streams.server("found"), {}, {"a": 1}, id="id-1")
    read: list[Event] = [
        ResourcePre(streams.step(Op.READ, None, state), False),
        ResourceOutputs(streams.step(Op.READ, None, state), False),
    ]
    assert "read cloud:index:Server found" in shown(*read)
    assert " >  cloud:index:Server found" not in shown(*read)
    settings = Settings("update", False, "dev", "proj", show_reads=True)
    assert " >  cloud:index:Server found reading" in shown(*read, settings=settings)


def test_outputs_can_be_suppressed_and_configuration_shown() -> None:
    events = list(streams.whole(streams.create("web"), outputs={"ip": "1.2.3.4"}))
    assert 'Outputs:\n    ip: "1.2.3.4"\n\nResources:' in shown(*events)
    quiet = Settings("update", False, "dev", "proj", suppress_outputs=True)
    assert "1.2.3.4" not in shown(*events, settings=quiet)
    loud = Settings("update", False, "dev", "proj", show_config=True)
    assert "Configuration:\n    proj:size: 3\n\n" in shown(Prelude({"proj:size": "3"}), settings=loud)


def test_outputs_of_a_program_that_did_not_finish_are_not_called_deleted() -> None:
    text = shown(ResourcePre(streams.root(Op.SAME, {"ip": "1.2.3.4"}, {}), False))
    assert "1.2.3.4" not in text


def test_cancelling_is_told_with_what_it_waits_for() -> None:
    out = io.StringIO()
    display = PlainDisplay(out, Settings("update", False, "dev", "proj"), Clock())
    display.event(ResourcePre(streams.root(), False))
    display.event(ResourcePre(streams.create("a"), False))
    display.event(ResourcePre(streams.create("b"), False))
    display.cancelling()
    last = out.getvalue().splitlines()[-1]
    assert last == "^C received; cancelling: waiting for 2 operations to end. Interrupt again to end at once"


def test_colours_only_where_asked() -> None:
    events = list(streams.whole(streams.create("web"), outputs={"ip": "1"}))
    assert "\x1b" not in shown(*events)
    colored = shown(*events, settings=Settings("update", False, "dev", "proj", color=True))
    assert "\x1b[38;5;2m+ \x1b[0m" in colored
    assert "<{%" not in colored


def test_a_reader_that_went_away_does_not_stop_the_operation() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    err = io.StringIO()
    settings = Settings("update", False, "dev", "proj")
    display = make_display(settings, stdout=Closed(), stderr=err, heartbeat=False)
    for event in streams.whole(streams.create("web")):
        display.event(event)
    display.close()
    assert err.getvalue().count("warning: this display is not complete: [Errno 32] Broken pipe") == 1
