"""Where free-riding hurts: what silos learn to earn without redistribution and with it, beside plans for all.

    python benchmarks/free_riding.py 30:0.0025:5 30:0.02:36.5 10:0.08:146

Each word is slots of a game : energy price κ : intensity α, for the silos of preset `paper` on the digits. Silos that
are alike and are not paid climb p·P − Σ c_n d_n together (the potential): a planner's aim where energy is N times as
dear. So the plan for N·κ is what the best equilibrium without redistribution plays, about.
"""

import argparse
import json
from typing import Any

from potluck.devices import use_cores
from potluck.federation.from_scenario import on_task
from potluck.game import Planner
from potluck.game.players import Playing
from potluck.scenario import Scenario, mechanism_of, preset
from potluck.studies.certificate import certify
from potluck.studies.deviations import Played, evaluated, followed
from potluck.studies.intervals import interval
from potluck.studies.plain import plain_values
from potluck.studies.planning import Effort, answer, best_plan
from potluck.training.api import train
from potluck.training.config import RunConfig, setup_one

GAMES, EFFORT = 64, Effort(rounds=8)


def scenario(slots: int, price: float, intensity: float) -> Scenario:
    paid = mechanism_of("redistribution", intensity=intensity)
    return on_task(preset("paper").model_copy(update={"energy_price": price, "mechanism": paid}), "digits").model_copy(
        update={"horizon": slots}
    )


def planner_of(scenario: Scenario) -> Planner:
    environment = setup_one(RunConfig(scenario, "mbpg")).environment
    assert isinstance(environment, Playing)
    return Planner(environment.game)


def told(name: str, play: Played, **more: Any) -> None:
    found = {"welfare": interval(play.welfare.mean((1, 2))), "precision": float(play.precision.mean())}
    found["payoffs"] = [round(float(silo), 1) for silo in play.slot_payoffs.mean((0, 1, 2))]
    print(json.dumps({"play": name} | plain_values(found) | more), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+")
    parser.add_argument("--slots", type=int, default=4800)
    parser.add_argument("--seeds", type=int, default=3)
    words = parser.parse_args()
    use_cores()
    for word in words.scenarios:
        slots, price, intensity = word.split(":")
        paid = scenario(int(slots), float(price), float(intensity))
        print(json.dumps({"slots": int(slots), "energy_price": float(price), "intensity": float(intensity)}))
        for name, alpha in (("none", 0.0), ("mbpg", float(intensity))):
            run = train(scenario(int(slots), float(price), alpha), "mbpg", slots=words.slots, seeds=words.seeds)
            told(name, evaluated(run, GAMES), nash_conv_share_of_stake=certify(run, games=16, slots=0).share)
        planner = planner_of(paid)
        for name, dearer in (("planner", 1), ("best without redistribution", paid.silos.count)):
            other = scenario(int(slots), dearer * float(price), 0.0)
            plan = answer(best_plan(planner_of(other), other, EFFORT))
            told(name, followed(planner, plan, paid.discount, GAMES))


if __name__ == "__main__":
    main()
