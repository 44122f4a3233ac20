"""Parsing of URLs: query parameters, a time, a page of a list; and the links that carry them."""
