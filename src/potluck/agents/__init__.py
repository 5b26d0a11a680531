"""Who decides: learners that see only what their silo may see, and the baselines and bounds beside them."""

from potluck.agents.actors import Actor
from potluck.agents.environment import Environment
from potluck.agents.estimators import ESTIMATORS, TARGETS
from potluck.agents.learner import Act, Diagnostics, Learner, Public, Seated, Window, window_length
from potluck.agents.policies import POLICIES
from potluck.agents.policy_gradient import AgentState, PolicyGradient
from potluck.agents.registry import AGENTS, AgentSpec, Brief, Options, PublicRules, find_agent
from potluck.agents.simple import Fixed, Greedy, Random

__all__ = [
    "AGENTS",
    "ESTIMATORS",
    "POLICIES",
    "TARGETS",
    "Act",
    "Actor",
    "AgentSpec",
    "AgentState",
    "Brief",
    "Diagnostics",
    "Environment",
    "Fixed",
    "Greedy",
    "Learner",
    "Options",
    "PolicyGradient",
    "Public",
    "PublicRules",
    "Random",
    "Seated",
    "Window",
    "find_agent",
    "window_length",
]
