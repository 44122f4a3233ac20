"""`balancewatch whatif`: the effect of a change on a group, read from a file or from the tables."""
