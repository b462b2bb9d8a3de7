"""No secret is ever shown, whatever is displayed and however."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.display import streams
from tidepool.engine.display.live import LiveDisplay
from tidepool.engine.display.settings import SecretFilter, Settings
from tidepool.engine.display.show import make_display
from tidepool.engine.events import (
    Diagnostic,
    Event,
    Op,
    PropertyDiff,
    ResourceOutputs,
    ResourcePre,
    Stdout,
    Summary,
)
from tidepool.engine.values import UNKNOWN, Archive, Asset, Output, Secret

HUSH = 'hu"sh\nZZ9'  # a quote and a line's end: both are written in several ways
CONFIG = "konfidential"

leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.text("xy ", max_size=3), st.just(UNKNOWN))
hidden = st.one_of(
    st.just(HUSH),
    st.just({"deep": [HUSH]}),
    st.just(json.dumps({"in": HUSH})),
    leaves,
)
values = st.recursive(
    st.one_of(
        leaves,
        hidden.map(Secret),
        hidden.map(lambda v: Output(v, secret=True)),
        st.just(f"x{CONFIG}y"),
        st.just(Asset("h", text=HUSH)),
        st.just(Archive("h", {"a": Asset("h", text=HUSH)})),
        st.just(f'{{"a": "{CONFIG}"}}'),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=4,
)
properties = st.dictionaries(st.sampled_from("abcd"), values, max_size=3)
paths = st.sampled_from(["a", "b.a", "c[0]", "d.a[1].b", 'a["b"]', ".", "a["])
diffs = st.none() | st.dictionaries(
    paths,
    st.builds(PropertyDiff, st.sampled_from(["add", "delete", "update-replace"]), st.booleans()),
)


@st.composite
def operations(draw: st.DrawFn) -> list[Event]:
    events: list[Event] = []
    for op in draw(
        st.lists(st.sampled_from([Op.CREATE, Op.UPDATE, Op.DELETE, Op.REPLACE, Op.REFRESH]), max_size=3)
    ):
        name = streams.ROOT if draw(st.booleans()) else streams.server("web")
        old = streams.state(name, draw(properties), draw(properties)) if op is not Op.CREATE else None
        new = streams.state(name, draw(properties), draw(properties)) if op is not Op.DELETE else None
        detailed = draw(diffs) if old is not None and new is not None else None
        step = streams.step(op, old, new, detailed_diff=detailed)
        planning = draw(st.booleans())
        found = streams.step(Op.UPDATE, old, new, detailed_diff=detailed) if op is Op.REFRESH else step
        events += [ResourcePre(step, planning), ResourceOutputs(found, planning)]
    events.append(Diagnostic("error", f"no {CONFIG}\nat all", streams.server("web")))
    events.append(Diagnostic("info", f"{CONFIG}\n", stream_id=1))
    events.append(Stdout(f"{CONFIG}\n"))
    events.append(Summary(False, False, 1.0, {}, "succeeded"))
    return events


FORMS: list[dict[str, Any]] = [{}, {"diff": True}, {"json": True}, {"interactive": True}]


def rendered(events: list[Event], settings: Settings, form: dict[str, Any], log: str = "") -> str:
    out, err = io.StringIO(), io.StringIO()
    display = make_display(
        settings,
        stdout=out,
        stderr=err,
        heartbeat=False,
        secrets=[CONFIG, "true", "ab"],
        event_log=log,
        **form,
    )
    for event in events:
        display.event(event)
    display.close()
    return out.getvalue() + err.getvalue()


@hypothesis.settings(max_examples=60)
@pytest.mark.parametrize("form", FORMS, ids=["rows", "diff", "json", "live"])
@pytest.mark.parametrize("is_preview", [False, True])
@given(events=operations(), color=st.booleans(), show_sames=st.booleans())
def test_no_rendering_tells_a_secret(
    form: dict[str, Any], is_preview: bool, events: list[Event], color: bool, show_sames: bool
) -> None:
    settings = Settings(
        "preview" if is_preview else "update", is_preview, "dev", "proj", color=color, show_sames=show_sames
    )
    text = rendered(events, settings, form)
    assert "ZZ9" not in text
    assert CONFIG not in text


@hypothesis.settings(max_examples=60)
@given(events=operations())
def test_no_event_log_tells_a_secret(events: list[Event], tmp_path_factory: pytest.TempPathFactory) -> None:
    path: Path = tmp_path_factory.mktemp("log") / "log"
    rendered(events, Settings("update", False, "dev", "proj", show_secrets=True), {}, log=str(path))
    text = path.read_text(encoding="utf-8")
    assert "ZZ9" not in text
    assert CONFIG not in text


def test_secrets_are_shown_where_asked() -> None:
    old, new = {"s": Secret("before")}, {"s": Secret("after")}
    step = streams.root(Op.SAME, old, new)
    events: list[Event] = [ResourcePre(step, False), ResourceOutputs(step, False)]
    assert "[secret]" in rendered(events, Settings("update", False, "dev", "proj"), {})
    text = rendered(events, Settings("update", False, "dev", "proj", show_secrets=True), {})
    assert '  ~ s: "before" => "after"' in text


def test_a_secret_in_the_live_rows_is_masked_too() -> None:
    out = io.StringIO()
    display = LiveDisplay(out, Settings("update", False, "dev", "proj"), lambda: 0.0, size=lambda: (100, 20))
    secret_filter = SecretFilter([CONFIG])
    display.event(secret_filter.event(Diagnostic("info", f"it is {CONFIG}", ephemeral=True)))
    assert "it is [secret]" in out.getvalue()


@given(st.lists(st.text('ab"\n\u00e9[', max_size=6), max_size=4), st.text('ab"\n\u00e9[', max_size=30))
def test_no_plaintext_survives_the_filter(plaintexts: list[str], text: str) -> None:
    known = [p for p in plaintexts if len(p) >= 3 and p.lower() not in ("true", "false")]
    # What is left must not be put together by the filter itself: a mask may complete another plaintext.
    pieces = SecretFilter(plaintexts).text("|".join([text, *known])).split("[secret]")
    assert all(p not in piece for p in known for piece in pieces)


def test_the_filter_s_choices() -> None:
    secret_filter = SecretFilter(["true", "ab", "hunter2", "hunter2-long", 'a "quote"'])
    assert secret_filter.text("true ab hunter2-long hunter2") == "true ab [secret] [secret]"
    assert secret_filter.text(json.dumps({"x": 'a "quote"'})) == '{"x": "[secret]"}'
    kept = Secret("hunter2")
    assert secret_filter.value({"s": kept, "l": ["hunter2"]}) == {"s": kept, "l": ["[secret]"]}
    event = Diagnostic("info", "nothing")
    assert SecretFilter([]).event(event) is event


def test_not_even_whether_a_secret_changed_is_told() -> None:
    urn = streams.server("web")
    old, new = streams.state(urn, {"s": Secret("a"), "n": 1}), streams.state(urn, {"s": Secret("b"), "n": 2})
    events: list[Event] = [ResourcePre(streams.step(Op.UPDATE, old, new), False)]
    settings = Settings("update", False, "dev", "proj")
    assert "[diff: ~n]" in rendered(events, settings, {})
    diff = rendered(events, settings, {"diff": True})
    assert "\n    s: [secret]\n" in diff
    assert "  ~ n: 1 => 2\n" in diff
