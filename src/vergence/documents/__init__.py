"""Printed text and tables: what they say, and how sure a reading is."""
