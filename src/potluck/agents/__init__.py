"""Who decides: learners that see only what their silo may see, and the baselines and bounds beside them."""

from potluck.agents.environment import Environment
from potluck.agents.learner import Act, Learner, Window
from potluck.agents.policy_gradient import Learned, PolicyGradient, Recall
from potluck.agents.roster import AGENTS, CHOICES, Options, agent
from potluck.agents.simple import Fixed, Greedy, Random

__all__ = [
    "AGENTS",
    "CHOICES",
    "Act",
    "Environment",
    "Fixed",
    "Greedy",
    "Learned",
    "Learner",
    "Options",
    "PolicyGradient",
    "Random",
    "Recall",
    "Window",
    "agent",
]
