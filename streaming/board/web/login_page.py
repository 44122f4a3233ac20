"""The login page: a form without script that posts the token to the requested page."""

from html import escape

from flask import Response

PAGE = """<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <meta name="robots" content="noindex">
    <title>Token · balancewatch</title>
    <style>
      body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto 0; padding: 0 1rem; }}
      input, button {{ font: inherit; padding: .5rem .75rem; width: 100%; box-sizing: border-box; margin-top: .5rem; }}
    </style>
  </head>
  <body>
    <main>
      <h1>balancewatch</h1>
      <p role="alert">{sentence}</p>

      <form method="post">
        <label for="token">Token of this board</label>
        <input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
        <button type="submit">Show the board</button>
      </form>
      <p>Ask the operator of the board for the token. Programs send it as <code>Authorization: Bearer</code>.</p>
    </main>
  </body>
</html>
"""


def login_page(code: int, sentence: str = "") -> Response:
    """Return the form, with the previous error."""
    response = Response(PAGE.format(sentence=escape(sentence)), code, mimetype="text/html")
    if code == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="balancewatch board"'
    return response
