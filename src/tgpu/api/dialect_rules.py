"""The language that a job came in, as it was asked."""

from tgpu.api.job_form import JobAsked
from tgpu.domain.dialect import Dialect, checked_annotations
from tgpu.domain.quantities import BadQuantityError


def dialect_of(asked: JobAsked) -> Dialect | None:
    """Raises BadQuantityError, whose text begins with the field."""
    if asked.dialect is None:
        if asked.annotations:
            raise BadQuantityError("annotations are about a dialect: say which, or leave them out")
        return None
    return Dialect(asked.dialect, checked_annotations("annotations", asked.annotations))
