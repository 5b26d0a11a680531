"""One palette and one order of schemes for all pictures, in colours that the colour-blind can tell apart.

The colours are Okabe and Ito's. What belongs together has the same colour everywhere: play that is paid for, play that
is not, and the planner.
"""

from typing import Any

PALETTE = ("#0072B2", "#D55E00", "#CC79A7", "#009E73", "#E69F00", "#56B4E9", "#222222")
PAID, UNPAID, PLANNED = PALETTE[:3]
INK = PALETTE[-1]
SCHEMES = {
    "none": ("no redistribution", UNPAID),
    "mpgd": ("redistribution, MPGD", PALETTE[5]),
    "mbpg": ("redistribution, MBPG", PAID),
    "planner": ("planner", PLANNED),
}
"""In the order of every legend."""
MONEY = "money per slot"


def line_look(number: int) -> dict[str, Any]:
    """A colour for each of the first seven lines, then the same dashed, then dotted."""
    styles = ("-", "--", ":", "-.")
    return {"color": PALETTE[number % len(PALETTE)], "linestyle": styles[number // len(PALETTE) % len(styles)]}
