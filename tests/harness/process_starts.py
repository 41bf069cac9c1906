"""Pytest plugin that notes which tests start processes, by the interpreter's own audit events.

A process that a fixture starts counts for every test that uses the fixture, whichever test set it up.
"""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.outcomes import STARTS_PROCESSES

PLUGIN = "tests.harness.process_starts"
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn"})


class Starts:
    def __init__(self) -> None:
        self._seen = False
        self._fixtures: set[int] = set()
        """Definitions of fixtures that started a process. Pytest keeps them for the whole session."""

    def audited(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in _STARTS:
            self._seen = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        before, self._seen = self._seen, False
        try:
            return (yield)
        finally:
            if self._seen:
                self._fixtures.add(id(fixturedef))
            self._seen = self._seen or before

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._seen = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Function, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown" and (self._seen or self._uses_one(item)):
            item.user_properties.append((STARTS_PROCESSES, True))

    def _uses_one(self, item: pytest.Item) -> bool:
        info = getattr(item, "_fixtureinfo", None)
        used = () if info is None else info.name2fixturedefs.values()
        return any(id(one) in self._fixtures for definitions in used for one in definitions)


def pytest_configure(config: pytest.Config) -> None:
    starts = Starts()
    sys.addaudithook(starts.audited)
    config.pluginmanager.register(starts, "process-starts")
