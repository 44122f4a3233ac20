"""What a URL asks: its parameters, a moment, a part of a list; and links that ask the same of a page."""
