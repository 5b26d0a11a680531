"""Where precision comes from."""
