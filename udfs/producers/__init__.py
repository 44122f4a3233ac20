"""Producers' FaultItems: a broker's board, a cluster's fleet, and what both say of the brokers."""
