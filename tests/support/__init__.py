"""Helpers that the tests share: what this machine has, a browser, a local web server."""
