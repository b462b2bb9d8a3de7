"""Folders of campaigns, and the one that a verb is about."""

from __future__ import annotations

from pathlib import Path

from tidepool.cli.errors import NOT_THERE, Failure
from tidepool.cli.stack import Stack


def campaigns_folder(stack: Stack) -> Path:
    """Return the folder of all campaigns of a project: ``results/lab``."""
    return stack.project.root / "results" / "lab"


def campaign_folder(stack: Stack, campaign: str | None) -> Path:
    """Return the folder of a campaign: that of the stack's name where none is said."""
    return campaigns_folder(stack) / (campaign or stack.name)


def existing_campaign(stack: Stack, campaign: str | None) -> Path:
    """Return the folder of a campaign that was begun.

    Raises:
        Failure: there is none of that name; says which there are.
    """
    folder = campaign_folder(stack, campaign)
    if not folder.is_dir():
        above = campaigns_folder(stack)
        there = sorted(each.name for each in above.iterdir()) if above.is_dir() else []
        raise Failure(
            f"there is no campaign {folder.name} in {above}; there are: {', '.join(there) or 'none'}",
            remedy="`tidepool lab run` begins one",
            code=NOT_THERE,
        )
    return folder
