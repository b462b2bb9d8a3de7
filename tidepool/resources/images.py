"""Golden images."""

from __future__ import annotations

import pulumi
from pulumi import Input, Output


class Image(pulumi.CustomResource):
    """An image in this machine's store, built where it is not there. Deleting it leaves it in the store.

    ``recipe`` is the folder with recipe.yaml and packages.lock, ``playbooks`` the one with roles/; both absolute.
    The digest of what they say decides: another one replaces the image.
    """

    #: 64 hexadecimal digits; known in previews.
    digest: Output[str]
    recipe: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        recipe: Input[str],
        playbooks: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {"recipe": recipe, "playbooks": playbooks, "digest": None}
        super().__init__("tidepool:image:Image", resource_name, inputs, opts)
