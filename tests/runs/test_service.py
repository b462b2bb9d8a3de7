"""The two tokens of a run's cluster: what they are for is done, and all else that anybody tries by them is refused."""

from __future__ import annotations

import hashlib
import json
import posixpath
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.results.sources import LARGE
from tests.runs.serving import AT, LEASE, Site, described, run_of_test, serving
from tidepool.runs.credentials import new_tokens, run_of, write_checksums
from tidepool.runs.ports import RunError
from tidepool.runs.results.records import StoredRecords
from tidepool.runs.results.store import Store
from tidepool.runs.service import BadRequest, output_path


@pytest.fixture
def site(store: Store) -> Iterator[Site]:
    made = Site(store)
    made.begin("physics-1")
    made.begin("physics-2")
    with serving(made):
        yield made


@pytest.mark.parametrize("content", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_outputs_are_kept_below_the_run_and_its_end_is_asked_for(site: Site, content: bytes) -> None:
    token = site.tokens["physics-1"]
    path = "out/ü +%2e&#?.txt"
    for _ in range(10):
        status, said = site.missing("physics-1", path, content, token.outputs)
        assert status == 200
        for number in said["missing"]:
            assert site.put("physics-1", path, content, number, token.outputs)[0] == 200
        if not said["missing"]:
            break
    assert site.store.sha256(f"physics-1/outputs/{path}") == hashlib.sha256(content).hexdigest()
    assert site.ask("POST", "/physics-1/end", token.end)[0] == 202
    assert site.wanted == ["physics-1"]


def test_no_token_gives_any_other_right(site: Site) -> None:
    before = site.everything()
    mine, other = site.tokens["physics-1"], site.tokens["physics-2"]
    told = json.dumps(described("x", b"x")).encode()
    part = "outputs?path=x&size=1&part=1"
    tried: list[tuple[str, str, str, bytes]] = [
        # Each for what the other is for, and for the other run.
        ("POST", "/physics-1/outputs", mine.end, told),
        ("PUT", f"/physics-1/{part}", mine.end, b"x"),
        ("POST", "/physics-1/end", mine.outputs, b""),
        ("POST", "/physics-2/outputs", mine.outputs, told),
        ("PUT", f"/physics-2/{part}", mine.outputs, b"x"),
        ("POST", "/physics-2/end", mine.end, b""),
        ("POST", "/physics-1/end", other.end, b""),
        # Of runs that there are not, and by no token, or none that there is.
        ("POST", "/physics-3/end", mine.end, b""),
        *(("POST", "/physics-1/end", token, b"") for token in ("", "A" * 43, mine.end[:-1], mine.end + "A")),
        *(
            ("POST", "/physics-1/outputs", token, told)
            for token in ("", mine.outputs.swapcase(), "\u00ff" * 43)
        ),
    ]
    for method, path, token, data in tried:
        assert site.ask(method, path, token, data)[0] == 401, (method, path)
    assert site.ask("POST", "/physics-1/end", Authorization=f"Basic {mine.end}")[0] == 401
    assert site.ask("POST", f"/physics-1/end?token={mine.end}")[0] == 401
    assert site.wanted == []
    assert site.everything() == before
    assert site.store.unfinished("") == []


def test_no_token_reads_lists_or_deletes(site: Site) -> None:
    content = b"of the other"
    site.store.write("physics-2/outputs/x", content)
    site.store.write("physics-1/outputs/x", b"mine")
    before = site.everything()
    places = [
        *("/", "/physics-1", "/physics-1/", "/physics-1/outputs", "/physics-1/outputs/x", "/physics-1/end"),
        *(
            "/physics-1/run.json",
            "/physics-1/credentials.json",
            "/physics-2/outputs/x",
            "/under-way/physics-1",
        ),
    ]
    for token in (site.tokens["physics-1"].outputs, site.tokens["physics-1"].end):
        for verb in (
            "GET",
            "HEAD",
            "DELETE",
            "PATCH",
            "OPTIONS",
            "TRACE",
            "COPY",
            "MOVE",
            "PROPFIND",
            "LIST",
        ):
            for place in places:
                status, said = site.ask(verb, place, token)
                assert status == 501, (verb, place)
                assert said == {}
        for verb in ("POST", "PUT"):
            for place in places[4:]:
                if place != "/physics-1/end":
                    assert site.ask(verb, place, token)[0] == 404, (verb, place)
    assert site.ask("PUT", "/physics-1/end", site.tokens["physics-1"].end)[0] == 405
    assert site.wanted == []
    assert site.everything() == before


_ELSEWHERE = [
    *("..", "../run.json", "../../physics-2/outputs/x", "a/../../run.json", "a/..", "./x", "a/./x", "."),
    *(
        "/etc/passwd",
        "//x",
        "a//x",
        "a/",
        "",
        "a\x00b",
        "a\nb",
        "a\x7fb",
        "a\x85b",
        "x" * 256,
        "x/" * 500 + "x",
    ),
    *(None, 7, ["x"], {"x": 1}, "a\ud800b"),
]


@pytest.mark.parametrize("path", _ELSEWHERE, ids=repr)
def test_a_path_that_leads_elsewhere_is_refused(site: Site, path: object) -> None:
    before = site.everything()
    token = site.tokens["physics-1"].outputs
    assert site.missing("physics-1", path, b"x", token)[0] == 400
    if isinstance(path, str) and "\ud800" not in path:
        assert site.put("physics-1", path, b"x", 1, token)[0] == 400
    assert site.everything() == before
    assert site.store.unfinished("") == []


@pytest.mark.parametrize(
    "place",
    [
        *("/physics-1/../physics-2/end", "/physics-1/%2e%2e/physics-2/end", "/./physics-2/end", "/physics-2%2fend"),
        *("/physics-1//end", "/physics-1/end/", "/physics-1/end%00", "/PHYSICS-1/end", "/physics-1\\end"),
        *("/physics-1/END", "/physics-1/outputs/..", "/ph%79sics-1/end", "/" + quote("physics-\uff11/end")),
        "http://127.0.0.1/physics-1/end",
    ],
)  # fmt: skip
def test_a_place_that_is_spelled_otherwise_is_not_there(site: Site, place: str) -> None:
    for token in (site.tokens["physics-1"].end, site.tokens["physics-1"].outputs):
        assert site.ask("POST", place, token)[0] == 404
    assert site.wanted == []


def test_names_that_only_look_like_another_place_are_files_below_therun_of_test(site: Site) -> None:
    token = site.tokens["physics-1"].outputs
    names = [
        "%2e%2e/x",
        "..%2f",
        "...",
        "..\u2044x",
        "\uff0e\uff0e/x",
        "a\\..\\b",
        "~root/.ssh",
        "e\u0301",
        "\u00e9",
    ]
    others = dict(site.everything())
    for name in names:
        for _ in range(2):
            for number in site.missing("physics-1", name, b"x", token)[1]["missing"]:
                assert site.put("physics-1", name, b"x", number, token)[0] == 200
    after = site.everything()
    assert after.keys() - others.keys() == {f"physics-1/outputs/{name}" for name in names}
    assert {name: after[name] for name in others} == others


def test_what_is_there_is_not_written_over(site: Site) -> None:
    site.store.write("physics-1/outputs/x", b"first")
    token = site.tokens["physics-1"].outputs
    status, said = site.missing("physics-1", "x", b"other", token)
    assert status == 403
    assert "is there already, and is another file" in said["error"]
    site.put("physics-1", "x", b"other", 1, token)
    assert site.missing("physics-1", "x", b"other", token)[0] == 403
    assert site.store.read("physics-1/outputs/x") == b"first"


def test_a_request_that_is_none_is_told_so(site: Site) -> None:
    token = site.tokens["physics-1"].outputs
    good = described("x", b"x")
    wrong: list[object] = [
        *({**good, "size": size} for size in (-1, True, "1", 1.0, None, 10**15, 8 * 2**20 + 1)),
        *({**good, "sha256": sha256} for sha256 in ("", "x" * 64, None, good["sha256"].upper())),
        *({**good, "parts": parts} for parts in ([], ["x"], None, "x", [good["parts"][0]] * 2)),
        *([], "x", 1, None),
    ]
    for bad in wrong:
        assert site.ask("POST", "/physics-1/outputs", token, json.dumps(bad).encode())[0] == 400, bad
    for text in (b"", b"{", b"\xff", b"[" * 100_000):
        assert site.ask("POST", "/physics-1/outputs", token, text)[0] == 400
    for query in (
        *("", "path=x", "path=x&size=1&part=0", "path=x&size=1&part=2", "path=x&size=1&part=1&more=1"),
        *("path=x&size=-1&part=1", "path=%ff&size=1&part=1", "path=x&path=y&size=1&part=1", "size=1&part=1&"),
        *("path=x&size=9&part=٣",),
    ):
        place = "/physics-1/outputs?" + quote(query, safe="=&%")
        assert site.ask("PUT", place, token, b"x")[0] == 400, query
    place = "/physics-1/outputs?path=x&size=1&part=1"
    assert site.ask("PUT", place, token, b"x", **{"Content-MD5": "other"})[0] == 400
    assert site.ask("PUT", place, token, b"xy")[0] == 403
    assert site.ask("POST", "/physics-1/outputs", token, b"", **{"Content-Length": str(2**21)})[0] == 400
    assert site.ask("POST", "/physics-1/outputs", token, b"", **{"Transfer-Encoding": "chunked"})[0] == 400
    assert not [name for name in site.store.names("") if "/outputs/" in name]


def test_while_somebody_drives_the_run_nothing_is_done(site: Site) -> None:
    site.now = AT + LEASE - timedelta(seconds=1)
    tokens = site.tokens["physics-1"]
    status, said = site.ask("POST", "/physics-1/end", tokens.end)
    assert (status, said) == (409, {"until": (AT + LEASE).isoformat()})
    assert site.missing("physics-1", "x", b"x", tokens.outputs)[0] == 409
    assert site.put("physics-1", "x", b"x", 1, tokens.outputs)[0] == 409
    assert site.wanted == []


def test_tokens_of_a_run_that_ended_or_whose_time_is_over_are_worth_nothing(site: Site) -> None:
    def refused(id: str) -> bool:
        tokens = site.tokens[id]
        answers = [
            site.ask("POST", f"/{id}/end", tokens.end)[0],
            site.missing(id, "x", b"x", tokens.outputs)[0],
            site.put(id, "x", b"x", 1, tokens.outputs)[0],
        ]
        return answers == [401, 401, 401]

    site.now = AT + timedelta(hours=25)
    assert refused("physics-1")
    site.now -= timedelta(seconds=1)
    assert not refused("physics-1")
    # Others in their place.
    old, site.tokens["physics-1"] = site.tokens["physics-1"], new_tokens()
    write_checksums(site.store, run_of_test("physics-1"), site.tokens["physics-1"], AT)
    assert site.ask("POST", "/physics-1/end", old.end)[0] == 401
    assert not refused("physics-1")
    StoredRecords(site.store).publish(
        replace(run_of_test("physics-1"), epoch=1, phase="done", ended=site.now)
    )
    assert refused("physics-1")
    assert "physics-1/credentials.json" not in site.store.names("")
    assert not refused("physics-2")
    site.store.remove("physics-2/credentials.json")
    assert refused("physics-2")


def test_tokens_are_told_to_nobody(site: Site) -> None:
    tokens = site.tokens["physics-1"]
    assert tokens.outputs != tokens.end
    assert "outputs" not in repr(tokens)
    assert tokens.end not in repr(tokens)
    for content in site.everything().values():
        assert tokens.outputs.encode() not in content
        assert tokens.end.encode() not in content


def test_results_that_cannot_be_asked_give_no_right(site: Site) -> None:
    site.store.write("physics-1/credentials.json", b"{")
    assert site.ask("POST", "/physics-1/end", site.tokens["physics-1"].end)[0] == 503
    with pytest.raises(RunError, match=r"credentials.json cannot be read"):
        run_of(site.store, "physics-1", "end", "x", AT)
    assert site.wanted == []


@given(st.text())
def test_a_path_that_is_taken_is_below_itsrun_of_test(path: str) -> None:
    try:
        taken = output_path(path)
    except BadRequest:
        return
    assert taken == path
    # As whoever normalises paths would have it.
    assert posixpath.normpath(f"/run/outputs/{path}") == f"/run/outputs/{path}"
    assert (Path("/run/outputs") / path).is_relative_to("/run/outputs")


def test_many_at_once_are_answered(site: Site) -> None:
    answers: list[int] = []
    ask: Callable[[], None] = lambda: answers.append(  # noqa: E731
        site.ask("POST", "/physics-1/end", site.tokens["physics-1"].end)[0]
    )
    threads = [threading.Thread(target=ask) for _ in range(10)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [202] * 10
