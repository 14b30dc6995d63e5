"""Profiles: all settings of a run in one frozen object; shipped profiles; profiles that `cpmi init` writes."""
