"""Whether the infrastructures that a stack names can be used: their packages, their plugins, and what each finds of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidepool.cli.package_needs import installed, package_lacks_of
from tidepool.cli.remote_infrastructure import Named, unnamed
from tidepool.cli.stack import Stack
from tidepool.cluster.failures import InfrastructureError, Permanent
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.answer import Answer
from tidepool.infrastructures.finding import Finding
from tidepool.infrastructures.registry import checks_of, descriptor

#: Time-outs of what is asked are shorter, one by one.
_PATIENCE_S: Final = 60.0


def fitness(stack: Stack, named: Named, patience_s: float = _PATIENCE_S) -> Iterator[Finding]:
    """What was found of each. All are asked at the same time; one that does not answer holds up no other."""
    answers = {
        name: Answer(lambda name=name, spec=spec: tuple(_checks(stack, name, spec)))  # type: ignore[misc]
        for name, spec in named.items()
    }
    for name, answer in answers.items():
        yield from _packages(name, stack)
        try:
            yield from answer.within(patience_s)
        except (InfrastructureError, SpecError, OSError) as error:
            yield Finding(name, "lacks", str(error), _page(name))


def _checks(stack: Stack, name: str, spec: ClusterSpec | None) -> Iterator[Finding]:
    if spec is None:
        yield Finding(name, "lacks", unnamed(name), _page(name))
        return
    for found in checks_of(name, spec, stack.name, stack.data):
        # They end with what mends them, as a preview tells it.
        remedy = "" if found.state == "well" else found.remedy or _page(name)
        yield Finding(found.what, found.state, found.detail, remedy)


def _packages(name: str, stack: Stack) -> Iterator[Finding]:
    """The Python package that programs need, and its plugin."""
    try:
        package = descriptor(name).package
    except Permanent:
        return  # its checks say so
    if package is None:
        return
    lacks = tuple(package_lacks_of(name, stack))
    yield from (Finding(package.name, "lacks", lack.what, lack.remedy) for lack in lacks)
    if lacks:
        return
    there = installed(package.name)
    if there and there != package.version:
        told = f"{there}, and this release is tested with {package.version}"
        yield Finding(package.name, "note", told, package.install)
    else:
        yield Finding(package.name, "well", f"{package.version}, with its plugin")


def _page(name: str) -> str:
    return f"see docs/infrastructures/{name}.md"
