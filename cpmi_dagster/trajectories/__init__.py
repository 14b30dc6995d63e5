"""Trajectories: forms of source rows, steps, labels, ids, and the prompts made of them."""
