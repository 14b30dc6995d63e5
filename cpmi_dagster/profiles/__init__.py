"""Profiles: every setting of a run in one frozen object, those that are shipped, and one's own from `cpmi init`."""
