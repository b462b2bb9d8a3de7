"""Secrets in configuration, inputs and outputs."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])
Options = pulumi.ResourceOptions

from cloud import Database, Plain, Provider

config = pulumi.Config()
password = config.require_secret("password")
plain = config.require("plain")
db = Database("db", password=password, plain=plain, size=step)
listed = Server("listed", tags={"p": password, "q": plain}, list=[plain, password], opts=Options(depends_on=[db]))
hidden = Database("hidden", password="unmarked", opts=Options(additional_secret_outputs=["connection", "password"]))
old = Provider("old", old="true", region="attic")
other = Plain("other", secret=pulumi.Output.secret({"deep": "hunter2"}), plain=plain, opts=Options(provider=old))
peer = Server("peer", peer=hidden.connection)

pulumi.export("password", password)
pulumi.export("connection", db.connection)
pulumi.export("nested", {"a": [password, plain], "b": pulumi.Output.secret(None)})
pulumi.export("unsecret", pulumi.Output.unsecret(pulumi.Output.secret("open")))
pulumi.export("joined", pulumi.Output.concat("x-", password))
