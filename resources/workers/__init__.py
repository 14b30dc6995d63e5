"""What makes labels: loaded models, chunks of a shard, the GPU of a process."""
