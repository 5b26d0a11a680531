"""How fast each part runs, beside others doing the same work."""
