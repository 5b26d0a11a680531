"""How agents learn: rollouts, the compiled loop, checkpoints, metrics."""
