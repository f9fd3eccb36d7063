"""Printed lines and tables, set with real fonts, with exact places and structure; and what wear does to them."""
