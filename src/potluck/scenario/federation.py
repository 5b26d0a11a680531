"""A federation that really trains, as a person describes it: in a scenario, to `build`, on the command line."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from potluck.registry import family
from potluck.scenario.fields import Described, NonNegative, Positive, member_of

PartitionName: TypeAlias = Literal["iid", "dirichlet", "quantity", "natural"]
DynamicsName: TypeAlias = Literal["static", "redraw", "stream"]
PartialBatches: TypeAlias = Literal["proportional", "full"]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class FederationConfig(Described):
    """Precision from a federation that really trains, measured on held-out data."""

    source: Annotated[
        Literal["fedavg"], Field(description="where precision P, accuracy on held-out data, comes from")
    ] = "fedavg"
    task: Annotated[str, Field(description="what is learnt; `potluck list task` names what there is")] = "digits"
    model: Annotated[
        Annotated[str, member_of("model")] | None,
        Field(description="what is trained, see `potluck list model`; the task's own if left out"),
    ] = None
    hidden: Annotated[Count | None, Field(description="hidden units of mlp; the task's own if left out")] = None
    channels: Annotated[tuple[Count, Count], Field(description="channels of cnn")] = (8, 16)
    partition: Annotated[PartitionName, Field(description="how data falls to the silos")] = "iid"
    concentration: Annotated[Positive, Field(description="of dirichlet: small is skewed, large is even")] = 0.5
    dynamics: Annotated[
        DynamicsName, Field(description="local sets stay, are drawn anew in every slot, or samples come and go")
    ] = "static"
    optimiser: Annotated[str, member_of("optimiser"), Field(description="of the silos; `potluck list optimiser`")] = (
        "sgd"
    )
    learning_rate: Annotated[Positive, Field(description="of the silos' optimiser")] = 0.05
    batch_size: Annotated[Count | None, Field(description="samples in a step; the task's own if left out")] = None
    epochs: Annotated[Count, Field(description="times that a silo goes through what it contributes, in every slot")] = 1
    partial_batches: Annotated[
        PartialBatches,
        Field(description="a batch that is not full takes its share of a step, or a whole one (the custom)"),
    ] = "proportional"
    proximal: Annotated[NonNegative, Field(description="FedProx: pull towards the global model")] = 0.0
    aggregation: Annotated[
        str, member_of("aggregation"), Field(description="of the server; `potluck list aggregation`")
    ] = "fedavg"
    server_learning_rate: Annotated[
        Positive | None, Field(description="of aggregations that have one; the aggregation's own if left out")
    ] = None
    server_momentum: Annotated[
        Annotated[float, Field(strict=True, ge=0, lt=1)] | None,
        Field(description="of aggregations that have one; the aggregation's own if left out"),
    ] = None
    held_out: Annotated[Count, Field(description="held-out samples that precision is measured on, at most")] = 2000
    dtype: Annotated[Literal["float32", "bfloat16"], Field(description="that silos compute in")] = "float32"

    @field_validator("task")
    @classmethod
    def _known_task(cls, task: str) -> str:
        known = family("task")
        if task.partition(":")[0] not in known:
            raise ValueError(f"must be one of {', '.join(map(str, known.values()))}, got {task!r}")
        return task

    @model_validator(mode="after")
    def _server_numbers_count(self) -> "FederationConfig":
        for name in ("server_learning_rate", "server_momentum"):
            if self.aggregation == "fedavg" and getattr(self, name) is not None:
                raise ValueError(f"{name} has no part in fedavg; leave it out, or choose another such as fedavgm")
        return self
