"""The script that runs a program in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from tidepool.engine.program import host


def test_no_neighbour_of_the_script_hides_a_module_of_the_standard_library() -> None:
    # The folder of a script comes first where Python looks for what the script imports.
    neighbours = {path.stem for path in Path(host.__file__).parent.glob("*.py")}
    assert not neighbours & sys.stdlib_module_names
