"""`cpmi plan`: tokens of labeling (`counting`), and the seconds that a card takes for them (`hardware`)."""
