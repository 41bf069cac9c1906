"""A value as a TOML file has it: who wrote `false` should not read of `False`."""

import json


def in_toml(value: object) -> str:
    """`false`, `"on"`, `[1, 2]`; numbers and times as they are; of a table, that it is one."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{', '.join(in_toml(item) for item in value)}]"
        case dict():
            return "a table"
        case _:
            return str(value)
