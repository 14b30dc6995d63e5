"""Answers of models, kept by question: a model is asked once."""
