"""Tests of the checkpoint codec, secrets and the file backend."""
