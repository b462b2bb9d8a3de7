"""What a run comes to, and the table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.engine.scenarios.compare import differences

from .case import Case
from .play import PlayedStep

Word = Literal["works", "differs", "refused", "fails", "not run"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the engine does with one program. ``details`` are for whoever mends it, ``why`` is for the table."""

    case: Case
    word: Word
    why: str = ""
    details: list[str] = field(default_factory=list)
    #: Seconds that all steps took together.
    engine_s: float = 0.0
    cli_s: float = 0.0


def judge(case: Case, engine: Sequence[PlayedStep], cli: Sequence[PlayedStep]) -> Verdict:
    """The verdict on what the engine did; ``cli`` is empty where there is no CLI to compare with."""
    times = sum(s.seconds for s in engine), sum(s.seconds for s in cli)
    if case.refused:
        first = engine[0]
        if first.parts["exit code"] and case.refused in first.printed:
            return Verdict(case, "refused", case.note, [], *times)
        return Verdict(case, "fails", f"it is not refused with {case.refused!r}", [first.printed], *times)
    wrong = [f"`{s.step.do}`: {what}" for s in engine for what in s.wrong]
    if wrong:
        return Verdict(case, "fails", "; ".join(wrong), [s.printed for s in engine if s.wrong], *times)
    reasons: list[str] = [case.note] if case.note else []
    report: list[str] = []
    parts: list[str] = []
    meant = False
    apart = (*case.unlike.get("parts", ()), *case.vague)
    for ours, theirs in zip(engine, cli, strict=False):
        meant |= any(ours.parts.get(p) != theirs.parts.get(p) for p in case.unlike.get("parts", ()))
        lines = differences(*({k: v for k, v in s.parts.items() if k not in apart} for s in (theirs, ours)))
        if lines:
            report += [f"`{ours.step.do}`:", *lines]
            parts += [k for k in theirs.parts if k not in apart and theirs.parts[k] != ours.parts.get(k)]
    if report:
        return Verdict(case, "differs", f"in {', '.join(dict.fromkeys(parts))}", report, *times)
    if meant:
        reasons.append(case.unlike["because"])
    return Verdict(case, "differs" if meant else "works", "; ".join(dict.fromkeys(reasons)), [], *times)


def table(verdicts: Sequence[Verdict]) -> str:
    """All verdicts as a table in Markdown."""
    lines = ["| program | what it shows | verdict | why |", "|---|---|---|---|"]
    lines += [f"| {_name(v.case)} | {_cell(v.case.about)} | {v.word} | {_cell(v.why)} |" for v in verdicts]
    return "\n".join(lines)


def _name(case: Case) -> str:
    return f"`{case.program}`" + (f", {case.variant}" if case.variant else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
