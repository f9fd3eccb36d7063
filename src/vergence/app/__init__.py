"""The gallery: every system of the catalogue as a page on this machine, with what was measured and a demo to try.

Only :mod:`vergence.app.pages` and :mod:`vergence.app.server` need Gradio (the extra ``app``); what checks uploads,
draws forms from a system's inputs and runs jobs stands without it.
"""
