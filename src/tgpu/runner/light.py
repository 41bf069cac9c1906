"""`signal` as the interpreter has it.

The standard library wraps it into enumerations. The modules that these need would be a fifth of all that is
copied whenever a supervisor is forked, and every call would go through them.
"""

TYPE_CHECKING = False  # `typing` is as heavy
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

__all__ = ["signal"]
