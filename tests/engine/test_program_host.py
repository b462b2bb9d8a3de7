"""The script that runs a program in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path

import pulumi
import pytest
from pulumi import _types
from pulumi.runtime import resource

from tidepool.engine.program import host


def test_no_neighbour_of_the_script_hides_a_module_of_the_standard_library() -> None:
    # The folder of a script comes first where Python looks for what the script imports.
    neighbours = {path.stem for path in Path(host.__file__).parent.glob("*.py")}
    assert not neighbours & sys.stdlib_module_names


class Thing(pulumi.CustomResource):
    """A resource class with an output."""

    size: pulumi.Output[int]


def test_what_is_constant_is_worked_out_once_and_rightly(monkeypatch: pytest.MonkeyPatch) -> None:
    # By the names that this SDK has: where a new one renames them, programs would be slow and nothing would say so.
    types_of, position_of = _types.resource_types, resource._get_source_position_for_frame
    monkeypatch.setattr(_types, "resource_types", types_of)
    monkeypatch.setattr(resource, "_get_source_position_for_frame", position_of)
    host._remember_what_is_constant()
    assert _types.resource_types(Thing) == types_of(Thing)
    assert _types.resource_types(Thing) is _types.resource_types(Thing)
    frames = [traceback.FrameSummary("/p/__main__.py", line, "<module>") for line in (1, 2, 1)]
    first, second, again = map(resource._get_source_position_for_frame, frames)
    assert [first, second] == [position_of(f) for f in frames[:2]]
    assert again is first


@pytest.mark.parametrize(
    "use",
    [
        "from pulumi.dynamic import ResourceProvider as it",
        "from pulumi.automation._stack import Stack as it",
        "import pulumi.automation.errors; it = pulumi.automation.errors.CommandError",
        "it = pulumi.automation.LocalWorkspace",
        "from pulumi.automation import *; it = LocalWorkspace",
        "it = 'Stack' in dir(pulumi.automation) or None",
        "import dill; it = dill.loads(dill.dumps(pulumi.dynamic)).Resource",
        "import concurrent.futures as c\nit = [*c.ThreadPoolExecutor(8).map(lambda n: pulumi.dynamic.Resource, range(64))]",
    ],
)
def test_parts_of_the_sdk_come_when_they_are_used(use: str) -> None:
    program = f"""
import sys, types
from tidepool.engine.program import host
host.import_sdk()
import pulumi, pulumi.runtime, pulumi.automation, pulumi.dynamic
assert not {{"dill", "http.client", "pulumi.dynamic.dynamic"}} & sys.modules.keys(), "imported at once"
{use}
assert it is not None
try:
    pulumi.dynamic.nothing
except AttributeError as error:
    assert "'pulumi.dynamic' has no attribute 'nothing'" in str(error)
assert type(pulumi.dynamic) is types.ModuleType and pulumi.dynamic is sys.modules["pulumi.dynamic"]
host.import_sdk()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
