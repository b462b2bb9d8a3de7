"""What the provider `tidepool` does: create, read, update and delete, for each of `tidepool.resources`."""
