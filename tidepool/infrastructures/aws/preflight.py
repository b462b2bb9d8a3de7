"""Preflight of a region of AWS: it is asked for what a spec demands, in previews and by `tidepool doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from tidepool.cluster.failures import InfrastructureError
from tidepool.cluster.spec import ClusterSpec
from tidepool.infrastructures.aws.demands import Demands, Facts, architecture, lacks, wanted
from tidepool.infrastructures.aws.reading import read_options
from tidepool.infrastructures.finding import Finding, Preflight, findings

Ask = Callable[[Demands], Facts]


def ask_aws(wanted: Demands) -> Facts:
    """Ask what the region has."""
    # It imports boto3, which the provider of a stack that has no AWS is spared.
    from tidepool.infrastructures.aws.ask import ask

    return ask(wanted)


def lacks_of_region(wanted: Demands, ask: Ask = ask_aws) -> tuple[str, ...]:
    """All that the region lacks, each with the remedy; that it cannot be asked."""
    if find_spec("boto3") is None:
        return ("the Python package boto3 is not installed; run: .venv/bin/pip install boto3",)
    try:
        facts = ask(wanted)
    except InfrastructureError as error:
        return (f"{error}; try it by hand: aws ec2 describe-vpcs --region {wanted.region}",)
    return lacks(facts, wanted)


def checks_of(spec: ClusterSpec, stack: str, _data: Path, ask: Ask = ask_aws) -> Iterator[Finding]:
    """The region, as whoever the environment and ~/.aws say sees it."""
    asked = wanted(spec, read_options(spec, stack), architecture())
    found = lacks_of_region(asked, ask)
    return findings(f"region {asked.region} of AWS", found, "it answers, and has all that is asked of it")


PREFLIGHT = Preflight(Demands, lambda demands, _home: lacks_of_region(demands))
