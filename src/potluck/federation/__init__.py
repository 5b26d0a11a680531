"""Where precision comes from: tasks, data, partitions, models, FedAvg, and the curve that stands in for it."""
