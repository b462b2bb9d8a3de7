"""GoldenImage: one image, from one recipe, for every infrastructure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pulumi
from pulumi import Output

from tidepool import resources, shipped
from tidepool.cluster.roles import Role


class GoldenImage(pulumi.ComponentResource):
    """An image by its recipe. Machines are told its ``digest``, which is known in previews.

    Args:
        name: the image's. Without ``recipe`` it is also the recipe's: that of the program's folder ``images/``, or one of
            Tidepool's own, such as ``debian-12``.
        recipe: the folder with recipe.yaml and packages.lock.
        playbooks: the folder with roles/; by default the program's ``playbooks/``, or Tidepool's own.
        folder: where ``images/`` and ``playbooks/`` are looked for, and all paths that are not absolute begin: by default
            the folder that the program runs in.
        needs: roles of converged pools whose machines are made from it.
        forms: those in which an infrastructure takes it.
        opts: Pulumi's.
    """

    digest: Output[str]
    """The image's digest: 64 hexadecimal digits, known in previews."""

    def __init__(
        self,
        name: str,
        *,
        recipe: Path | str | None = None,
        playbooks: Path | str | None = None,
        folder: Path | None = None,
        needs: Sequence[Role] = (),
        forms: Sequence[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("tidepool:components:GoldenImage", name, None, opts)
        start = (folder or Path()).absolute()
        image = resources.Image(
            name,
            recipe=str(start / recipe if recipe is not None else shipped.recipe(name, start)),
            playbooks=str(start / playbooks if playbooks is not None else shipped.playbooks(start)),
            needs=list(needs) or None,
            forms=list(forms) or None,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.digest = image.digest
        self.register_outputs({"digest": self.digest})
