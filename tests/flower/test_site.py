"""A silo's own file, and who may read it."""

from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from potluck.errors import PotluckError
from potluck.flower.consortium import Consortium, write_private
from potluck.flower.site import named_file, read_site


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o660])
def test_terms_that_others_may_read_or_change_are_refused(consortium: Consortium, mode: int) -> None:
    place = consortium.terms(0)
    place.chmod(mode)
    with pytest.raises(PotluckError, match=f"chmod 600 {place}"):
        read_site(place)


def test_a_site_finds_its_keys_beside_itself(consortium: Consortium) -> None:
    site = read_site(consortium.terms(1))
    assert (site.profit, site.energy, site.communication, site.cap) == (100.0, 2.0, 0.5, 1.0)
    assert site.private_key()
    assert len(site.coordinator_key()) == 32


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profit = -1.0", "profit must be positive"),
        ("profit = 'much'", "profit must be a number"),
        ("salary = 1.0", "salary is not a known key"),
        ("cap = 1.5", "cap must be at most 1"),
        ("= 3", "not a TOML file"),
    ],
)
def test_mistakes_name_the_field(consortium: Consortium, text: str, words: str) -> None:
    place = consortium.terms(0)
    name = text.partition(" ")[0]
    kept = [line for line in place.read_text().splitlines() if not line.startswith(f"{name} ")]
    write_private(place, "\n".join([*kept, text]))
    with pytest.raises(PotluckError, match=words):
        read_site(place)


def context(node: dict[str, str | int], run: dict[str, str]) -> Context:
    return Context(run_id=1, node_id=1, node_config=node, state=RecordDict(), run_config=run)


def test_files_are_named_by_the_node_and_simulated_ones_by_the_run() -> None:
    assert named_file(context({"terms": "/a/b.toml"}, {"terms": "/c"}), "terms") == Path("/a/b.toml")
    pattern = {"terms": "/a/silo-{partition-id}.toml"}
    assert named_file(context({"partition-id": 2}, pattern), "terms") == Path("/a/silo-2.toml")
    with pytest.raises(PotluckError, match="--node-config 'terms="):
        named_file(context({}, {}), "terms")
    with pytest.raises(PotluckError, match="does not say"):
        named_file(context({}, pattern), "terms")
    with pytest.raises(
        PotluckError, match="agent-state is not named"
    ):  # a run names no file of a silo that has its own
        named_file(context({"terms": "/a/b.toml"}, {"agent-state": "/tmp/other"}), "agent-state")
