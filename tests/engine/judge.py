"""Let Pulumi's own programs judge the engine, those of its integration and of its conformance tests: ``python -m tests.engine.judge CHECKOUT [PROGRAM...]``.

CHECKOUT is a checkout of github.com/pulumi/pulumi at the version that ``pulumi version`` says. Where a
``pulumi`` command is on PATH each program is run by both and all that can be seen is compared: exit codes,
stack outputs, steps, messages, the state. Without it, only what Pulumi's own tests expect is checked.
The table goes to stdout, what differs in detail to stderr.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.engine.judging.case import SUITES, Case, load_all
from tests.engine.judging.copy import Copy, NotHere
from tests.engine.judging.packages import provide
from tests.engine.judging.play import Play, PlayedStep
from tests.engine.judging.sdk import generate
from tests.engine.judging.verdict import Verdict, judge, table
from tests.engine.scenarios.actors import engine, real_cli, version_of
from tests.engine.scenarios.sandbox import Actor

HERE = Path(__file__).parent


def verdict_on(case: Case, checkout: Path, cli: Actor | None, built: Path) -> Verdict:
    """Run ``case`` with the engine, and with the CLI where there is one."""
    if case.unjudged:
        return Verdict(case, "not run", case.unjudged)
    try:
        ours = _play(case, checkout, engine(), cli, built)
        theirs = _play(case, checkout, cli, cli, built) if cli is not None and not case.refused else []
    except NotHere as error:
        return Verdict(case, "not run", str(error))
    if mistaken := [f"`{s.step.do}`: {what}" for s in theirs for what in s.wrong]:
        # Then it is the list of programs that is wrong.
        return Verdict(
            case, "not run", f"the CLI does otherwise: {'; '.join(mistaken)}", [s.printed for s in theirs]
        )
    return judge(case, ours, theirs)


def _play(case: Case, checkout: Path, actor: Actor, cli: Actor | None, built: Path) -> list[PlayedStep]:
    with tempfile.TemporaryDirectory(prefix="judge-") as root:
        copy = Copy(checkout, case, Path(root), built)
        provide(case.packages, copy, built)
        for sdk in case.sdks:
            generate(sdk, copy, cli, built)
        return Play(case, copy, actor).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the named programs, or all; the exit code is 1 where one fails or differs unexplained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("programs", nargs="*", help="beginnings of programs' names")
    parser.add_argument("--built", type=Path, help="keep plugins that are built from Go source here")
    parser.add_argument("--no-cli", action="store_true", help="do not compare with the CLI")
    options = parser.parse_args(arguments)
    cases = [
        c
        for suite, file in SUITES.items()
        for c in load_all(HERE / "judging" / file, suite)
        if not options.programs or c.program.startswith(tuple(options.programs))
    ]
    cli = None if options.no_cli else real_cli()
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="judge-built-") as scratch:
        built = (options.built or Path(scratch)).resolve()
        for number, case in enumerate(cases, 1):
            verdict = verdict_on(case, options.checkout.resolve(), cli, built)
            verdicts.append(verdict)
            times = f"{verdict.engine_s:.1f} s, CLI {verdict.cli_s:.1f} s"
            _tell(f"[{number}/{len(cases)}] {case.name}: {verdict.word} ({times}) {verdict.why}")
            for line in verdict.details:
                _tell(f"    {line}")
    sys.stdout.write(f"pulumi {version_of(cli) if cli else '(not there: nothing was compared)'}\n\n")
    sys.stdout.write(table(verdicts) + "\n")
    return 0 if all(v.word in ("works", "refused", "not run") for v in verdicts) else 1


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
