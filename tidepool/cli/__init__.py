"""The command `tidepool`."""
