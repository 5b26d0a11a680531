"""Other engines on our work; `peers.toml` lists them, `potluck bench federation --peers benchmarks/peers` runs them."""
