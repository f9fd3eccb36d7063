"""x"""
CLAIMS = ()
