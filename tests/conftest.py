from hypothesis import settings

from potluck.federation import use_cores

# Before any test module starts JAX: many of them check what is spread over two devices.
use_cores(2)

# Seeded by the test itself: a failure on one machine is a failure on all. Compilation makes first examples slow.
settings.register_profile("potluck", max_examples=500, deadline=None, derandomize=True, print_blob=True)
settings.load_profile("potluck")
