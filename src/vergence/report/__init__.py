"""One self-contained HTML page a run: no network, opens from disk."""
