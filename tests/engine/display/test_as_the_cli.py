"""Recorded event logs of the Pulumi CLI, shown again: the text must be the one it printed."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from tests.engine.display import replay
from tidepool.engine.display.settings import Kind, Settings
from tidepool.engine.display.show import make_display

ROWS: dict[str, tuple[Kind, dict[str, Any]]] = {
    "preview-create": ("preview", {"is_preview": True}),
    "preview-update": ("preview", {"is_preview": True}),
    "up-create": ("update", {}),
    "up-update": ("update", {}),
    "up-same-showsames": ("update", {"show_sames": True}),
    "up-boom": ("update", {}),
    "refresh": ("refresh", {}),
    "values-up": ("update", {}),
    "cloud-preview": ("preview", {"is_preview": True}),
    "cloud-up": ("update", {}),
    "cloud-up-2": ("update", {}),
}
DIFFS: dict[str, tuple[Kind, dict[str, Any]]] = {
    "preview-create-diff": ("preview", {"is_preview": True}),
    "preview-update-diff": ("preview", {"is_preview": True}),
    "preview-replace-diff": ("preview", {"is_preview": True}),
    "up-create-diff": ("update", {}),
    "up-replace-diff": ("update", {}),
    "refresh-diff": ("refresh", {}),
    "destroy-diff": ("destroy", {}),
    "values-preview": ("preview", {"is_preview": True}),
    "values-up-2": ("update", {}),
    "cloud-showsames": ("update", {"show_sames": True}),
    "cloud-preview-diff": ("preview", {"is_preview": True}),
    "cloud-preview-steps": ("preview", {"is_preview": True, "show_replacement_steps": True}),
    "cloud-refresh-diff": ("refresh", {}),
    "cloud-destroy": ("destroy", {}),
}
HEADLINES = {"update": "Updating", "refresh": "Refreshing", "destroy": "Destroying", "preview": "Previewing"}


def show(name: str, kind: Kind, options: dict[str, Any], **form: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    project = "display" if name.startswith("cloud") else "proj"
    settings = Settings(kind, stack="dev", project=project, **({"is_preview": False} | options))
    display = make_display(settings, stdout=out, stderr=err, heartbeat=False, **form)
    for event in replay.events(name):
        display.event(event)
    display.close()
    return out.getvalue(), err.getvalue()


def recorded(name: str, kind: Kind) -> str:
    """What the CLI printed for the last operation of a command, without what its verb says after it."""
    text = (replay.RECORDED / f"{name}.out").read_text(encoding="utf-8")
    text = text[text.rindex(f"{HEADLINES[kind]} ") :]
    return text.partition("The resources in the stack have been deleted")[0]


def without_times(text: str) -> list[str]:
    text = re.sub(r"\(\d+(\.\d+)?s\)", "(T)", text)
    text = re.sub(r"^Duration: \d+s$", "Duration: T", text, flags=re.MULTILINE)
    return [line for line in text.split("\n") if not line.startswith("@ ")]


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_as_the_cli_prints_them(name: str) -> None:
    kind, options = ROWS[name]
    ours, theirs = (without_times(t) for t in (show(name, kind, options)[0], recorded(name, kind)))
    # The CLI lists the resources of its diagnostics, and streams within one, in the order of a hash table.
    start, end = (lines_of_diagnostics(ours), lines_of_diagnostics(theirs))
    assert ours[: start[0]] + ours[start[1] :] == theirs[: end[0]] + theirs[end[1] :]
    assert sorted(ours[start[0] : start[1]]) == sorted(theirs[end[0] : end[1]])


def lines_of_diagnostics(lines: list[str]) -> tuple[int, int]:
    if "Diagnostics:" not in lines:
        return 0, 0
    begin = lines.index("Diagnostics:")
    end = next(i for i in range(begin, len(lines)) if lines[i] in ("Outputs:", "Resources:"))
    return begin, end


@pytest.mark.parametrize("name", DIFFS)
def test_a_diff_is_as_the_cli_prints_it(name: str) -> None:
    kind, options = DIFFS[name]
    out, err = show(name, kind, options, diff=True)
    assert without_times(out) == without_times(recorded(name, kind))
    errors = replay.RECORDED / f"{name}.err"
    assert err == (errors.read_text(encoding="utf-8") if errors.exists() else "")


def test_a_destroy_says_what_the_cli_says_and_the_outputs_that_go() -> None:
    theirs = without_times(recorded("destroy", "destroy"))
    theirs.remove("    pulumi:pulumi:Stack proj-dev  ")  # its second row for the stack
    ours = without_times(show("destroy", "destroy", {})[0])
    begin, end = ours.index("Outputs:"), ours.index("Resources:")
    named = [line.split(":")[0].strip() for line in ours[begin + 1 : end] if line.startswith("  - ")]
    assert named == ["- made", "- obj", "- password", "- step"]
    rest = ours[:begin] + ours[end:]
    assert [line for line in rest if line] == [line for line in theirs if line]


@pytest.mark.parametrize("name", ["preview-create-json", "preview-update-json", "preview-replace-json"])
def test_a_digest_is_as_the_cli_prints_it(name: str) -> None:
    ours = show(name, "preview", {"is_preview": True}, json=True)[0]
    theirs = (replay.RECORDED / f"{name}.out").read_text(encoding="utf-8")
    assert digest(ours) == digest(theirs)
    assert list(json.loads(ours)) == list(json.loads(theirs))
    assert list(json.loads(ours)["steps"][0]) == list(json.loads(theirs)["steps"][0])


#: What an event log does not have.
ABSENT = ("created", "modified", "sourcePosition", "stackTrace", "propertyDependencies", "dependencies")


def digest(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    assert document.pop("duration") > 0
    for step in document["steps"]:
        for key in ("oldState", "newState"):
            step[key] = {k: v for k, v in step.get(key, {}).items() if k not in ABSENT}
    return document


def test_json_of_an_update_is_as_the_cli_prints_it() -> None:
    def timeless(text: str) -> str:
        return re.sub(r'"timestamp":\d+', "", text)

    ours = show("up-json", "update", {}, json=True)[0]
    theirs = (replay.RECORDED / "up-json.out").read_text(encoding="utf-8")
    assert timeless(ours) == timeless(theirs)
    assert ours.count("\n") < len(replay.lines("up-json")), "nothing internal was left out"


def test_no_secret_of_the_programs_is_anywhere() -> None:
    for name, (kind, options) in (ROWS | DIFFS).items():
        for text in (*show(name, kind, options), *show(name, kind, options, diff=True)):
            for secret in ("hunter22-long", "zz9plural", "onehush", "twohush", "hunter2-"):
                assert secret not in text
