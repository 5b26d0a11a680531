"""The long-term game: a multi-agent POMDP with real training, or its curve, inside."""

from potluck.game.game import Game, Record, Slot, State, game
from potluck.game.players import Members, Planner, Report
from potluck.game.stage import stage_game

__all__ = ["Game", "Members", "Planner", "Record", "Report", "Slot", "State", "game", "stage_game"]
