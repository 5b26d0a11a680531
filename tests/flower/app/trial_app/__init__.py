"""A small app for tests."""
