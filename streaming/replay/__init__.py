"""`balancewatch replay`: a recorded log under changed rules, and the pages that differ."""
