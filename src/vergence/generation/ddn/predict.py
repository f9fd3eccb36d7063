"""x"""
from vergence.contract.result import Result
class Restoration(Result): pass
