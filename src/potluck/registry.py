"""Families that anybody may add to: a name, and what makes the member of that name."""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from typing import Any, Generic, TypeVar

from potluck.errors import PotluckError

Member = TypeVar("Member")

HOMES = {
    "preset": "potluck.scenario.presets:PRESETS",
    "mechanism": "potluck.mechanisms:MECHANISMS",
    "observation": "potluck.game.observation:OBSERVATIONS",
    "task": "potluck.federation.tasks:TASKS",
    "model": "potluck.federation.models:MODELS",
    "optimiser": "potluck.federation.optimisers:OPTIMISERS",
    "aggregation": "potluck.federation.aggregations:AGGREGATIONS",
    "agent": "potluck.agents.registry:AGENTS",
    "environment": "potluck.agents.known_games:ENVIRONMENTS",
    "policy": "potluck.agents.policies:POLICIES",
    "estimator": "potluck.agents.estimators:ESTIMATORS",
    "target": "potluck.agents.estimators:TARGETS",
}
"""Where each family lives. A scenario names members; it looks them up here without importing what computes them."""


class UnknownMemberError(PotluckError, KeyError):
    """No member of this name: a person's mistake, and what a mapping raises."""


class Registry(Mapping[str, Member], Generic[Member]):
    """The members of one family by name: those of the package, those registered by a call, those of entry points.

    An entry point of another package, group `potluck.FAMILY`, is loaded when the family is first asked for a name.
    """

    def __init__(self, family: str, members: Mapping[str, Member], kind: type | None = None) -> None:
        """`kind` is the class that members are of, or inherit from, where there is one."""
        self.family, self.kind = family, kind
        self._own, self._added = dict(members), dict[str, Member]()
        self._plugins: dict[str, metadata.EntryPoint] | None = None

    def register(self, name: str, member: Member) -> None:
        """Add a member from anywhere; what the package ships keeps its name."""
        if name in self._own:
            raise PotluckError(f": {name!r} is one of Potluck's own; choose another name", field=self.family)
        if self._added.get(name, member) is not member and "jax" in sys.modules:
            sys.modules["jax"].clear_caches()  # compiled programs know a member by its name
        self._added[name] = self._checked(name, member)

    def __getitem__(self, name: str) -> Member:
        for members in (self._own, self._added):
            if name in members:
                return members[name]
        plugin = self._entry_points().get(name)
        if plugin is None:
            raise UnknownMemberError(f"must be one of {', '.join(self)}, got {name!r}", field=self.family)
        try:
            self._added[name] = self._checked(name, plugin.load())
        except Exception as fault:  # whatever another package may do
            origin = f"{plugin.dist.name} " if plugin.dist else ""
            reason = " ".join(str(fault).split())
            raise PotluckError(
                f": {name!r} of the package {origin}cannot be loaded ({plugin.value}: {reason}); mend or uninstall it",
                field=self.family,
            ) from None
        return self._added[name]

    def _checked(self, name: str, member: Member) -> Member:
        kind, made = self.kind or object, type(member).__name__
        if not isinstance(member, kind) and not (isinstance(member, type) and issubclass(member, kind)):
            raise PotluckError(f": {name!r} must be made by {kind.__name__}, got {made}", field=self.family)
        return member

    def __contains__(self, name: object) -> bool:
        """Whether there is such a member, be it a plugin that cannot be loaded."""
        return any(name == known for known in self)

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*self._own, *self._added, *self._entry_points()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _entry_points(self) -> dict[str, metadata.EntryPoint]:
        if self._plugins is None:
            self._plugins = {point.name: point for point in metadata.entry_points(group=f"potluck.{self.family}")}
        return self._plugins


def family(name: str) -> Registry[Any]:
    """The registry of a family; importing its home brings its members."""
    module, _, attribute = HOMES[name].partition(":")
    found: Registry[Any] = getattr(import_module(module), attribute)
    return found
