"""The long-term game: a multi-agent POMDP with real training, or its curve, inside."""

from potluck.game.game import Game, Slot, State, game
from potluck.game.observation import OBSERVATIONS, ObservationField, View, observe_one
from potluck.game.players import Members, Planner, Report
from potluck.game.record import Own, Record
from potluck.game.stage import stage_game

__all__ = [
    "OBSERVATIONS",
    "Game",
    "Members",
    "ObservationField",
    "Own",
    "Planner",
    "Record",
    "Report",
    "Slot",
    "State",
    "View",
    "game",
    "observe_one",
    "stage_game",
]
