"""The generated parts of the Markdown pages: what a setting, a topic, a table or a command says of itself.

`make docs` (`python -m streaming.manual`) writes them; a test refuses a page that is not what it would write.
"""
