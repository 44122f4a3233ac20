"""The web side of the board: server, access control, Dash application, and the frame around every page."""
