"""Tests of the command `tidepool`."""
