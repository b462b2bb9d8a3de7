"""`adjusted_p_values`: a paired randomization test of many measures at once, with Westfall and Young's correction. Pure."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_DRAWS: Final = 9999
_SEED: Final = 19
#: With fewer blocks there are too few patterns of signs: 2 of 32, the most extreme of five blocks, are 0.06 already.
FEWEST_FOR_SIGNS: Final = 10


def adjusted_p_values(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each measure how probable a difference as clear as its own is in any of them, where no measure has one.

    The statistic is the cosine between a measure's differences and a difference that is the same in all blocks: that of Student's t,
    in a form that is finite for constant differences. Without a difference, right is as good as left in each block, so all
    patterns of signs of the blocks are alike in probability; the same pattern is given to all measures, so that what goes together
    stays together. With fewer than `FEWEST_FOR_SIGNS` blocks signs are replaced by rotations of the blocks (Langsrud 2005), of which
    there are enough, and which are exact where differences are normal. The correction is the step-down maxT procedure
    (Westfall and Young 1993, algorithm 4.1): the probability of a single false difference among all measures stays below the level.

    Args:
        differences: of shape (blocks, measures): right less left, finite.

    Returns:
        p values of shape (measures,), adjusted; 1 where all differences are 0.
    """
    blocks, measures = differences.shape
    lengths = np.linalg.norm(differences, axis=0)
    unit = np.divide(differences, lengths, out=np.zeros_like(differences), where=lengths > 0)
    observed = np.abs(unit.sum(axis=0)) / np.sqrt(blocks)
    drawn = np.abs(_directions(blocks) @ unit)
    # As floating point has it, a pattern may miss itself by a rounding.
    order = np.argsort(-observed)
    highest = np.maximum.accumulate(drawn[:, order[::-1]], axis=1)[:, ::-1]
    reached = (highest >= observed[order] - 1e-12).sum(axis=0)
    adjusted = np.empty(measures)
    adjusted[order] = np.maximum.accumulate((1 + reached) / (1 + _DRAWS))
    adjusted[lengths == 0] = 1.0
    return adjusted


@cache
def _directions(blocks: int) -> NDArray[np.float64]:
    """Return what the direction of a constant difference becomes, of shape (draws, blocks): by signs, or by rotations."""
    chance = np.random.default_rng(_SEED)
    if blocks >= FEWEST_FOR_SIGNS:
        directions = chance.choice((-1.0, 1.0), size=(_DRAWS, blocks))
    else:
        directions = chance.standard_normal((_DRAWS, blocks))
    unit: NDArray[np.float64] = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return unit
