"""Language models by role, and the GPU of a process."""
