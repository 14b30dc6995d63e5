"""What the rooms agree on: tables and their columns, costs, groups of settings."""
