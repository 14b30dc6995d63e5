"""Contracts between the rooms: tables and their columns, contexts, costs, the base of settings."""
