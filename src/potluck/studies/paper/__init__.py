"""The paper's evaluation: who is compared in which worlds, measured, judged and told."""
