"""Reward types: the registry of them, their values, their soft labels and what they cost."""
