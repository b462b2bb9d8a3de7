"""Measure what comparisons of the laboratory find, and how often they are wrong, in campaigns that are drawn by chance.

In each campaign two schedulers are compared in so many figures over so many repeats. A figure varies from run to run by the noise, in part
(a correlation of 0.6) together with the others.
"""

from __future__ import annotations

import argparse
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.page import add_page_option
from tidepool.lab.statistics.comparison import RATE
from tidepool.lab.statistics.max_test import adjusted_p_values

REPEATS: Final = (5, 6, 8, 10)
FIGURES: Final = (3, 12, 36)
NOISE: Final = (0.01, 0.02, 0.03, 0.05)
TOGETHER: Final = 0.6
#: A tenth slower, in so many of the figures.
CHANGE: Final = 1.1
CHANGED: Final = 3


def differences(
    chance: np.random.Generator, repeats: int, figures: int, noise: float, tails: str
) -> NDArray[np.float64]:
    """Draw differences of logarithms between two schedulers that are alike: shape (repeats, figures)."""

    def drawn(columns: int) -> Any:
        match tails:
            case "heavy":
                return chance.standard_t(3, (repeats, columns)) / np.sqrt(3)
            case "one-sided":
                pair = chance.exponential(size=(2, repeats, columns))
                return (pair[0] - pair[1]) / np.sqrt(2)
            case _:
                return chance.standard_normal((repeats, columns))

    found: NDArray[np.float64] = (
        (np.sqrt(TOGETHER) * drawn(1) + np.sqrt(1 - TOGETHER) * drawn(figures)) * noise * np.sqrt(2)
    )
    return found


def power(chance: np.random.Generator, campaigns: int, repeats: int, figures: int, noise: float) -> float:
    """Return in which share of campaigns one figure that differs is found, beside two others that do."""
    found = 0
    for _ in range(campaigns):
        drawn = differences(chance, repeats, figures, noise, "normal")
        drawn[:, :CHANGED] += np.log(CHANGE)
        found += bool(adjusted_p_values(drawn)[0] <= RATE)
    return found / campaigns


def wrong(chance: np.random.Generator, campaigns: int, repeats: int, tails: str) -> float:
    """Return in which share of campaigns any of 24 figures seems to differ, where none does."""
    return (
        sum(
            bool((adjusted_p_values(differences(chance, repeats, 24, 0.03, tails)) <= RATE).any())
            for _ in range(campaigns)
        )
        / campaigns
    )


def main() -> None:
    """Print the tables, and write them into the page that was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=150, help="how many are drawn for each number")
    parser.add_argument("--seed", type=int, default=1)
    add_page_option(parser)
    arguments = parser.parse_args()
    chance = np.random.default_rng(arguments.seed)
    text = "| repeats | figures | " + " | ".join(f"noise {noise:.0%}" for noise in NOISE) + " |\n"
    text += "|---|---|" + "---|" * len(NOISE) + "\n"
    for repeats in REPEATS:
        for figures in FIGURES:
            found = [power(chance, arguments.campaigns, repeats, figures, noise) for noise in NOISE]
            text += f"| {repeats} | {figures} | " + " | ".join(f"{each:.0%}" for each in found) + " |\n"
    text += "\nWhere nothing differs, in any of 24 figures a difference was shown in so many campaigns (four times as many were drawn):\n\n"
    tails = ("normal", "heavy", "one-sided")
    text += (
        "| repeats | "
        + " | ".join(f"{each} noise" for each in tails)
        + " |\n|---|"
        + "---|" * len(tails)
        + "\n"
    )
    for repeats in REPEATS:
        rates = [wrong(chance, 4 * arguments.campaigns, repeats, each) for each in tails]
        text += f"| {repeats} | " + " | ".join(f"{each:.1%}" for each in rates) + " |\n"
    print(text)
    if arguments.write:
        arguments.write.write(text)


if __name__ == "__main__":
    main()
