"""`balancewatch check` and `balancewatch alerts rules`: the settings, and alerts under them."""
