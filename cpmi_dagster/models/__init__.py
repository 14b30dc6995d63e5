"""Language models: which one a profile means, how it is loaded, how text becomes its tokens."""
