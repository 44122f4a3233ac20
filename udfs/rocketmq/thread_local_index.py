"""ThreadLocalIndex: the counter behind every round robin of a producer, and Java's int arithmetic around it.

What a thread keeps and what it is given differ: the kept value is a Java int that wraps, the given one was meant
never to be negative. Each release range failed at that in its own way, once in 2^32 sends.
"""

from udfs.rocketmq.version import ClientVersion, release_of

MAX_VALUE = 0x7FFF_FFFF
MIN_VALUE = -0x8000_0000


def increment_and_get(index: int, client_version: ClientVersion | str) -> tuple[int, int]:
    """The value a selection is given, and the index its thread keeps. `index`: what it kept so far, a Java int.

    Up to 4.7.1 the absolute value is kept, and 0 for Integer.MIN_VALUE, which has none. 4.8.0 to 4.9.3 let
    Integer.MIN_VALUE out, the only negative value given, and 4.8.0 also keeps it: its next value is the largest, the
    one after that the smallest again, and so on. From 4.9.4 on, 5.0.0 included, the sign bit is masked.
    """
    release, following = release_of(client_version), wrap(index + 1)
    if release >= (4, 9, 4):
        return following & MAX_VALUE, following
    value = absolute(following)
    if release >= (4, 9, 0):
        return value, following
    if release < (4, 8, 0):
        value = max(0, value)
    return value, value


def wrap(value: int) -> int:
    """The value as a Java int holds it."""
    return (value - MIN_VALUE) % (1 << 32) + MIN_VALUE


def absolute(value: int) -> int:
    """Math.abs of an int: Integer.MIN_VALUE is its own."""
    return value if value == MIN_VALUE else abs(value)


def remainder(value: int, divisor: int) -> int:
    """Java's `%`: it has the sign of `value`. Raises ZeroDivisionError."""
    return value % divisor if value >= 0 else -(-value % divisor)
