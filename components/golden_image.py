"""GoldenImage: one image, from one recipe, for every infrastructure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pulumi
from pulumi import Output

from tidepool import resources
from tidepool.cluster.roles import Role


class GoldenImage(pulumi.ComponentResource):
    """An image by its recipe. Machines are told its ``digest``, which is known in previews.

    ``recipe`` is the folder with recipe.yaml and packages.lock, ``playbooks`` the one with roles/. Those that are
    not absolute are in the folder that the program runs in, as Pulumi's own assets are. ``needs`` are the roles of
    converged pools whose machines are made from it, ``forms`` those in which an infrastructure takes it.
    """

    digest: Output[str]

    def __init__(
        self,
        name: str,
        *,
        recipe: Path | str,
        playbooks: Path | str,
        needs: Sequence[Role] = (),
        forms: Sequence[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("tidepool:components:GoldenImage", name, None, opts)
        image = resources.Image(
            name,
            recipe=str(Path(recipe).absolute()),
            playbooks=str(Path(playbooks).absolute()),
            needs=list(needs) or None,
            forms=list(forms) or None,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.digest = image.digest
        self.register_outputs({"digest": self.digest})
