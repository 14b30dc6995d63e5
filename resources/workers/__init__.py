"""What makes labels: loaded models, chunks of a shard, processes and Ray actors on GPUs."""
