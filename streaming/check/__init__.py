"""`balancewatch check` and `balancewatch alerts rules`: the settings, and what an alert would do under them."""
