"""From the alerts table to people: what is told, to whom, in each receiver's own words, until it has arrived."""
