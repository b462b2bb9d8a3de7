"""The judge is right about programs of which the verdict is known. Pulumi's own are not needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine import judge
from tests.engine.judging.case import SUITES, Case, Step, load_all
from tests.engine.judging.play import PlayedStep
from tests.engine.judging.verdict import judge as verdict_of
from tests.engine.judging.verdict import table

LISTS = Path(judge.__file__).parent / "judging"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    program = tmp_path / "tests" / "integration" / "mine" / "python"
    program.mkdir(parents=True)
    # The toolchain makes environments, which is not what is judged: it is left out.
    (program / "Pulumi.yaml").write_text(
        "name: mine\nruntime:\n  name: python\n  options: {toolchain: uv, virtualenv: nowhere}\n"
    )
    (program / "__main__.py").write_text('import pulumi\npulumi.export("answer", 42)\n')
    over = program.parent / "step2"
    over.mkdir()
    (over / "__main__.py").write_text('raise ValueError("enough")\n')
    return tmp_path


def test_a_program_that_does_as_expected_works(checkout: Path) -> None:
    steps = (
        Step("up", outputs={"answer": 42}, resources=1),
        Step("up", over="mine/step2", exit="fail", says=("ValueError: enough",)),
    )
    verdict = judge.verdict_on(Case("mine/python", steps=steps), checkout, None, checkout)
    assert (verdict.word, verdict.why) == ("works", "")


def test_each_expectation_that_is_missed_is_told(checkout: Path) -> None:
    steps = (
        Step("up", exit="fail", outputs={"answer": 41}, says=("hello",), silent=("answer",), resources=2),
    )
    verdict = judge.verdict_on(Case("mine/python", steps=steps), checkout, None, checkout)
    assert verdict.word == "fails"
    assert verdict.why.split("; ") == [
        "`up`: exit code 0",
        "`up`: output answer: 42 instead of 41",
        "`up`: it does not say 'hello'",
        "`up`: it says 'answer'",
        "`up`: 1 resources instead of 2",
    ]


def test_a_refusal_is_one_only_with_its_message(checkout: Path) -> None:
    file = checkout / "tests" / "integration" / "mine" / "python" / "Pulumi.yaml"
    file.write_text("name: mine\nruntime: yaml\n")
    for text, word in (("the runtime 'yaml' is not supported", "refused"), ("something else", "fails")):
        case = Case("mine/python", steps=(Step("up"),), refused=text)
        assert judge.verdict_on(case, checkout, None, checkout).word == word


def test_what_differs_from_the_cli_is_named() -> None:
    step = Step("up")
    ours, theirs = (
        PlayedStep(step, {"exit code": 0, "state": [1]}, [], 1.0),
        PlayedStep(step, {"exit code": 0, "state": [2]}, [], 1.0),
    )
    assert verdict_of(Case("p"), [ours], [theirs]).why == "in state"
    meant = Case("p", unlike={"parts": ["state"], "because": "it is better"})
    assert (verdict_of(meant, [ours], [theirs]).word, verdict_of(meant, [ours], [theirs]).why) == (
        "differs",
        "it is better",
    )
    assert verdict_of(meant, [theirs], [theirs]).word == "works"


@pytest.mark.parametrize("suite", SUITES)
def test_the_list_of_programs_says_what_each_shows(suite: str) -> None:
    cases = load_all(LISTS / SUITES[suite], suite)
    assert [c.name for c in cases if not c.about] == []
    rows = table([verdict_of(Case("p", about="a|b"), [], [])]).splitlines()
    assert rows[-1] == "| `p` | a\\|b | works |  |"


def test_a_key_that_means_nothing_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "programs.yaml"
    path.write_text("- {program: p, stpes: []}\n")
    with pytest.raises(ValueError, match="stpes"):
        load_all(path)
    path.write_text("- {program: p}\n- {program: p}\n")
    with pytest.raises(ValueError, match="more than once"):
        load_all(path)
