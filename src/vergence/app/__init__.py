"""The gallery: a local web page with results and a live demo of every system in the catalogue.

Only :mod:`vergence.app.pages` and :mod:`vergence.app.server` need Gradio (the extra ``app``); uploads, forms and
jobs work without it.
"""
