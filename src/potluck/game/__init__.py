"""The long-term game: a multi-agent POMDP with real training, or its curve, inside."""

from potluck.game.game import Game, Record, Slot, State, game
from potluck.game.players import Planner, Silos

__all__ = ["Game", "Planner", "Record", "Silos", "Slot", "State", "game"]
