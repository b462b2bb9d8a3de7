"""Tables of parameters in docs/laboratory-workloads.md, made of the generators themselves.

``python -m tests.lab.workloads_page`` writes them; `tests/lab/generators/test_page.py` holds the page to them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from tidepool.cluster.part_reading import field_key
from tidepool.lab.generators.parameters import Parameters
from tidepool.lab.generators.registry import KINDS

PAGE: Final = Path(__file__).parents[2] / "docs" / "laboratory-workloads.md"
_SECTION: Final = re.compile(r"^## `(?P<kind>\w+)`.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_TABLE: Final = re.compile(r"^\| parameter \|.*?\n(?!\|)", re.MULTILINE | re.DOTALL)
#: Said once for all kinds that have them.
COMMON: Final = ("program", "cpus_per_task", "memory_mib", "seconds", "variation")


def table_of(kind: type[Parameters]) -> str:
    """Return the table of a kind's parameters: names, defaults, what they are; those of many kinds by their names alone."""
    rows = [f"| `{key}` | {default} | {description} |\n" for key, default, description in _parameters(kind)]
    return "".join(["| parameter | by default | |\n", "|---|---|---|\n", *rows])


def page_with_tables(page: str) -> str:
    """Return the page's text with the tables of all its kinds."""

    def section(found: re.Match[str]) -> str:
        return _TABLE.sub(lambda _: table_of(KINDS[found["kind"]]), found[0])

    return _SECTION.sub(section, page)


def _parameters(kind: type[Parameters]) -> list[tuple[str, str, str]]:
    own = [(field_key(name, field), field) for name, field in kind.model_fields.items() if name not in COMMON]
    found = [(key, _default(field), f"{field.description}.") for key, field in own]
    return found or [("", "", "")]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "has to be said"
    value: Any = to_jsonable_python(field.get_default(call_default_factory=True, validated_data={}))
    if value is None or value == {}:
        return ""
    if isinstance(value, list):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(page_with_tables(PAGE.read_text()))


if __name__ == "__main__":
    main()
