"""Golden images."""

from __future__ import annotations

from collections.abc import Sequence

from pulumi import Input

from tidepool.resources.model import Field, Model, Resource, derived, given, output


class ImageModel(Model):
    """Properties of an `Image`."""

    recipe: Field[str] = given()
    playbooks: Field[str] = given()
    needs: Field[Sequence[str], Sequence[Input[str]]] = given(default=())
    forms: Field[Sequence[str], Sequence[Input[str]]] = given(default=())
    #: 64 hexadecimal digits; known in previews.
    digest: Field[str] = derived(replaces=True)


class Image(Resource, ImageModel, token="tidepool:image:Image", delete_first=False):
    """An image in this machine's store, built where it is not there. Deleting it leaves it in the store.

    ``recipe`` is the folder with recipe.yaml and packages.lock, ``playbooks`` the one with roles/; both absolute.
    The digest of what they say decides: another one replaces the image. ``needs`` are roles of a converged pool that it
    has to hold (slurm, kubernetes), ``forms`` those that it is to be written as: what cannot be is told before anything is
    made.
    """


class ImageFileModel(Model):
    """Properties of an `ImageFile`."""

    image: Field[str] = given(replaces=True)
    form: Field[str] = given(replaces=True)
    #: Absolute, on this machine; known in previews.
    path: Field[str] = output()


class ImageFile(Resource, ImageFileModel, token="tidepool:image:File", delete_first=False):
    """An image of this machine's store as one file, for who uploads it. Deleting it leaves it in the store.

    ``image`` is the digest, ``form`` one of `tidepool.images.Form`.
    """
