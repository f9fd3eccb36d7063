"""Files from outside: the only code that hands bytes of unknown origin to a decoder.

Every function here keeps to a :class:`~vergence.reading.budget.Budget` and turns each failure of the library below it
into a :class:`~vergence.core.errors.VergenceError` of one sentence that names the file and what was expected.
"""
