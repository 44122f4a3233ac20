"""The board on the web: the server, who may see it, the Dash application, and the frame around every page."""
