"""`balancewatch whatif`: a change of a group, tried on paper from a file or from the tables."""
