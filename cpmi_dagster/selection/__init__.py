"""Which trajectories are labelled (appendix B)."""
