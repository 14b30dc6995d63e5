"""What is given away: labelled data sets and reward models in the forms that other programs read."""
