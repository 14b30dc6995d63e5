"""Profiles: every setting of a run in one frozen object, and the profiles that are shipped."""
