"""From a `Decision` to orders: each is looked at again just before it is carried out."""
