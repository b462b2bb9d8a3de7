"""The Pulumi provider `tidepool`: what the resources of `tidepool.resources` do.

serving        the process: gRPC, and errors as a person is to read them
provider       Pulumi's requests, in threads, to the kind of resource that each is about
kinds          all kinds of resources, by their tokens
"""
