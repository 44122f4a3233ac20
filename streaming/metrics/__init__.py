"""What the service says of itself to Prometheus: the product's verdicts, its own health, `/healthz` and `/readyz`."""
