"""Golden images."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi import Input, Output


class Image(pulumi.CustomResource):
    """An image in this machine's store, built where it is not there. Deleting it leaves it in the store.

    ``recipe`` is the folder with recipe.yaml and packages.lock, ``playbooks`` the one with roles/; both absolute.
    The digest of what they say decides: another one replaces the image. ``needs`` are roles of a converged pool that it
    has to hold (slurm, kubernetes), ``forms`` those that it is to be written as: what cannot be is told before anything is
    made.
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
        needs: Input[Sequence[Input[str]]] | None = None,
        forms: Input[Sequence[Input[str]]] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        inputs = {
            "recipe": recipe,
            "playbooks": playbooks,
            "needs": needs,
            "forms": forms,
            "digest": None,
        }
        super().__init__("tidepool:image:Image", resource_name, inputs, opts)


class ImageFile(pulumi.CustomResource):
    """An image of this machine's store as one file, for who uploads it. Deleting it leaves it in the store.

    ``image`` is the digest, ``form`` one of `tidepool.images.Form`.
    """

    #: Absolute, on this machine; known in previews.
    path: Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        image: Input[str],
        form: Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(
            "tidepool:image:File", resource_name, {"image": image, "form": form, "path": None}, opts
        )
