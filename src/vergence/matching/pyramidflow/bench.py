def contests():
    yield from ()
