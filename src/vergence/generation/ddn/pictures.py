"""x"""
def of_variants(ctx, models, data): return ()
