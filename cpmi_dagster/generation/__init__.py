"""Sampling text: engines, prefix rollouts, candidate solutions."""
