"""The page of docs/benchmarks that a measurement is written into: the text between its markers is replaced."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

_BEGIN, _END = "<!-- figures -->\n", "<!-- end of figures -->"


@dataclass(frozen=True, slots=True)
class Page:
    """A Markdown file with both markers."""

    path: Path

    def write(self, figures: str) -> None:
        """Replace what is between the markers; the rest is a person's."""
        page = self.path.read_text()
        head, _, rest = page.partition(_BEGIN)
        self.path.write_text(f"{head}{_BEGIN}\n{figures.strip()}\n{_END}{rest.partition(_END)[2]}")


def add_page_option(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` the option ``--write PAGE``: before anything is measured, what cannot be written is refused."""
    parser.add_argument(
        "--write",
        type=_page,
        metavar="PAGE",
        help="a Markdown file; what is between its markers is replaced",
    )


def _page(name: str) -> Page:
    path = Path(name)
    try:
        page = path.read_text()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error.strerror}") from error
    _, begin, rest = page.partition(_BEGIN)
    if not begin or _END not in rest:
        raise argparse.ArgumentTypeError(
            f"{name}: the lines {_BEGIN.strip()} and {_END}, between which figures are written, are not there"
        )
    return Page(path)
