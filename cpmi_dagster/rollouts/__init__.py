"""Sampling text from a model: Monte-Carlo rollouts of step prefixes (Eq. 1) and candidate solutions."""
