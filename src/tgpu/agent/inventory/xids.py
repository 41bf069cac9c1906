"""Which errors that NVIDIA's driver reports (Xid) are the GPU's own, and what they take to be over.

By NVIDIA's catalogue of Xids and the action it asks for at once. With those that are not here the GPU goes
on: they are a program's own doing (13, 31, 43, 45, 68, 109 …), or information (63: a row of memory is to be
replaced; 92: many errors were corrected; 154: the driver asks for something else, which it is asked itself).
"""

_RESET = {
    46: "it stopped processing",
    48: "a double-bit error of its memory",
    62: "its micro-controller halted",
    64: "a bad row of its memory could not be replaced",
    74: "an error of its NVLink",
    79: "it has fallen off the bus",
    95: "a memory error that was not contained",
    110: "a security fault",
    119: "its system processor does not answer",
    120: "an error of its system processor",
    136: "its NVLink could not be trained",
    140: "a memory error that could not be recovered",
    143: "it could not be initialised",
    155: "an error of its NVLink",
    156: "a part of it is to be retired",
    158: "it does not answer any more",
}
_PASSING = {
    94: "a memory error that was contained to one program",
    171: "an error of its memory that could not be corrected",
    172: "an error of its caches that could not be corrected",
}


def is_the_gpus_own(xid: int) -> bool:
    return xid in _RESET or xid in _PASSING


def needs_reset(xid: int) -> bool:
    """Nothing runs on it any more before somebody has reset it, or restarted the machine."""
    return xid in _RESET


def in_words(xid: int) -> str:
    """`Xid 79: it has fallen off the bus`."""
    meaning = _RESET.get(xid) or _PASSING.get(xid)
    return f"Xid {xid}: {meaning}" if meaning else f"Xid {xid}"
