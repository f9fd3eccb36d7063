"""What rendered documents say: words, names, numbers, dates, amounts, and phrases of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

from vergence.rendering.things import choice, uniform

CURRENCIES = ("$", "€", "£", "EUR ", "USD ", "CHF ")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
UNITS = ("kg", "m", "cm", "mm", "km", "g", "l", "h", "min", "s", "%", "°C", "kWh", "pcs", "MB")


@cache
def words() -> tuple[str, ...]:
    """Common English words."""
    return tuple((Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split())


def word(source: torch.Generator, most: int = 14) -> str:
    """A word of at most ``most`` letters: in small letters, with a capital, or all in capitals."""
    known = words()
    while True:
        found = known[choice(source, len(known))]
        if len(found) <= most:
            break
    style = choice(source, 10)
    return found if style < 6 else found.capitalize() if style < 9 else found.upper()


def integer(source: torch.Generator, digits: int = 6) -> str:
    """A whole number of 1 to ``digits`` digits, with thousands set apart in half of all cases."""
    value = int(10 ** uniform(source, 0, digits))
    separator = (",", "", "")[choice(source, 3)] if value >= 1000 else ""
    return f"{value:,}".replace(",", separator) if separator == "" else f"{value:,}"


def decimal(source: torch.Generator, places: int | None = None) -> str:
    """A number with 1 to 3 places after the point."""
    places = places if places is not None else 1 + choice(source, 3)
    sign = "-" if choice(source, 8) == 0 else ""
    return f"{sign}{uniform(source, 0, 10 ** uniform(source, 0, 4)):.{places}f}"


def amount(source: torch.Generator) -> str:
    """An amount of money."""
    value = 10 ** uniform(source, 0, 5)
    sign = CURRENCIES[choice(source, len(CURRENCIES))] if choice(source, 2) else ""
    return f"{sign}{value:,.2f}"


def date(source: torch.Generator) -> str:
    """A date in one of five usual forms."""
    day, month, year = 1 + choice(source, 28), 1 + choice(source, 12), 1950 + choice(source, 90)
    forms = (
        f"{year}-{month:02d}-{day:02d}", f"{day:02d}/{month:02d}/{year}", f"{day}.{month}.{year}",
        f"{day} {MONTHS[month - 1]} {year}", f"{MONTHS[month - 1]} {day}, {year}",
    )  # fmt: skip
    return forms[choice(source, len(forms))]


def measure(source: torch.Generator) -> str:
    """A number with a unit."""
    unit = UNITS[choice(source, len(UNITS))]
    return f"{decimal(source, choice(source, 3))}{'' if unit == '%' else ' '}{unit}"


def code(source: torch.Generator) -> str:
    """A part number or reference: letters, digits and a hyphen."""
    letters = "".join(chr(65 + choice(source, 26)) for _ in range(1 + choice(source, 3)))
    digits = "".join(str(choice(source, 10)) for _ in range(2 + choice(source, 4)))
    return f"{letters}{('-', '', '/')[choice(source, 3)]}{digits}"


def token(source: torch.Generator) -> str:
    """A word in three of five cases; else a number, a date, an amount, a measure or a code."""
    if choice(source, 5) < 3:
        return word(source)
    makers = (integer, decimal, date, amount, measure, code)
    return makers[choice(source, len(makers))](source)


def phrase(source: torch.Generator, least: int = 1, most: int = 8) -> str:
    """``least`` to ``most`` tokens, with punctuation now and then."""
    parts = [token(source) for _ in range(least + choice(source, most - least + 1))]
    for place in range(len(parts)):
        mark = choice(source, 14)
        if mark == 0 and place < len(parts) - 1:
            parts[place] += (",", ";", ":")[choice(source, 3)]
        elif mark == 1:
            parts[place] = f"({parts[place]})"
        elif mark == 2:
            parts[place] = f'"{parts[place]}"'
    if choice(source, 4) == 0:
        parts[-1] += (".", ".", "?", "!")[choice(source, 4)]
    return " ".join(parts)
