"""What is read from outside: files of rows, data sets of a hub."""
