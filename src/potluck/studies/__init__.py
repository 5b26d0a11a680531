"""What we find out with all of it: solved games, figures, reports, benchmarks."""
