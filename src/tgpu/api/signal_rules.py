"""Which signals a job's tasks get, as it was asked: at their end, and before their time limit."""

from tgpu.api.job_form import JobAsked
from tgpu.domain.quantities import MAX_SECONDS, BadQuantityError, time_in_words, whole
from tgpu.domain.signals import WARN_S, Warn, signal_name


def stop_signal_of(asked: JobAsked) -> str | None:
    return None if asked.stop_signal is None else signal_name("stop_signal", str(asked.stop_signal))


def warn_of(asked: JobAsked, time_limit_s: int | None) -> Warn | None:
    """Raises BadQuantityError, whose text begins with the field."""
    if asked.warn_signal is None:
        for field in ("warn_s", "warn_main"):
            if getattr(asked, field):
                raise BadQuantityError(f"{field} is about warn_signal: say that, too, or leave it out")
        return None
    name = signal_name("warn_signal", str(asked.warn_signal))
    if time_limit_s is None:
        raise BadQuantityError(
            "warn_signal is sent before the time limit, and there is none: give it one (time_limit_s)"
        )
    before_s = WARN_S if asked.warn_s is None else whole("warn_s", asked.warn_s, MAX_SECONDS)
    if not 0 < before_s < time_limit_s:
        raise BadQuantityError(
            f"warn_signal can be sent 1 to {time_limit_s - 1} seconds before the time limit of "
            f"{time_in_words(time_limit_s)}; got {before_s}"
        )
    return Warn(name, before_s, asked.warn_main)
