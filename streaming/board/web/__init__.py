"""The web side of the board: server, access control, routes, and the frame around every page."""
