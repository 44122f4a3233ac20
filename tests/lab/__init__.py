"""Laboratories: each measures the product from outside, and `make` runs each at full length."""
