"""Trajectories: the forms a source may have, its steps and labels, its ids, and the text a model reads of them."""
