"""Files as inputs."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

text = pulumi.StringAsset("hello" if step < 2 else "good bye")
file = pulumi.FileAsset("page.html")
folder = pulumi.FileArchive("site")
bundle = pulumi.AssetArchive({"a.txt": text, "page": file, "site": folder})
a = Server("a", source=text)
b = Server("b", source=file)
c = Server("c", source=folder)
d = Server("d", source=bundle, peer=a.address)
pulumi.export("source", d.source if hasattr(d, "source") else None)
