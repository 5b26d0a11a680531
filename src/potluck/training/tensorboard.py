"""Learning curves for TensorBoard, where it is wanted."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from potluck.errors import PotluckError

if TYPE_CHECKING:
    from potluck.training.run import Progress


class Board:
    """Writes a run's progress into `folder/tensorboard`."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise PotluckError(
                "needs tensorboardX, which is not here; install it with: pip install 'potluck-fl[tensorboard]'",
                field="tensorboard",
            ) from None
        self._kind: Any = SummaryWriter
        self._folder = str(folder / "tensorboard")
        self._writer: Any = None

    def write(self, progress: "Progress") -> None:
        """Means over seeds, then every seed; what an interrupted run wrote after its last checkpoint is taken back."""
        if self._writer is None:
            self._writer = self._kind(self._folder, purge_step=progress.slots)
        names = ("welfare", "precision", "signal", "contribution")
        means = {name: getattr(progress, name) for name in names} | dict(progress.diagnostics)
        for name, value in means.items():
            if value is not None:
                self._writer.add_scalar(name, value, progress.slots)
        for seed, values in progress.by_lane.items():
            for name, value in values.items():
                self._writer.add_scalar(f"{name}/seed_{seed}", value, progress.slots)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
