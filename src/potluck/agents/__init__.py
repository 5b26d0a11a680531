"""Who decides: the networks, learners and bounds that choose a silo's contribution."""
