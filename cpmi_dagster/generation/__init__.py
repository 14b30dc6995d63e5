"""Sampling text: engines, prefix rollouts, solutions."""
