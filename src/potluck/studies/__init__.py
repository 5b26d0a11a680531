"""Studies: measurements over many games, and of this program itself."""
