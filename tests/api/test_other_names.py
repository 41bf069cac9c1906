"""Names of the command line that a caller of the API may try: each is told the field that is meant."""

from tgpu.api.job_form import JobAsked
from tgpu.api.other_names import OTHER_NAMES
from tgpu.cli.fields import ALIASES


def test_every_name_of_the_command_line_leads_to_a_field() -> None:
    assert ALIASES.items() <= OTHER_NAMES.items()
    assert set(OTHER_NAMES.values()) <= set(JobAsked.__struct_fields__)
    assert not OTHER_NAMES.keys() & set(JobAsked.__struct_fields__)
