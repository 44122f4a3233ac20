"""The generated parts of the Markdown pages: settings, topics, tables, commands and findings, from their sources.

`make docs` (`python -m streaming.manual`) writes them; a test refuses a stale page.
"""
