"""The mistakes that `tidepool.infrastructures.local.kernel` finds in a specification, told of the inputs that it was made of. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidepool.infrastructures.local.kernel import BadSpec
from tidepool.resources.reading import Mistake

_LINE = re.compile(r"\S+ '[^']*': (?P<said>(?P<field>\w+).*)", re.DOTALL)


def spec_mistakes(error: BadSpec, inputs: Mapping[str, str]) -> list[Mistake]:
    """A mistake for each line of ``error``. ``inputs`` names those that are not called as the field is."""
    found = []
    for line in str(error).splitlines():
        match = _LINE.fullmatch(line)
        field, said = (match["field"], match["said"]) if match else ("", line)
        key = inputs.get(field, field if said.startswith((f"{field} is ", f"{field} has ", "cidr ")) else "")
        found.append(Mistake(key, said))
    return found
