"""A Flower federation on the loopback: a SuperLink, SuperNodes, and runs of an app on them."""

import contextlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from potluck.errors import PotluckError
from potluck.flower.consortium import Consortium
from potluck.flower.credentials import Certificates, make_certificates, make_node_key
from potluck.flower.processes import Group, free_port

LINK = "superlink"
CONNECTION = "potluck"
STARTING = 180.0
"""Seconds that a process may take to listen."""
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}
"""Nothing is sent anywhere, nothing is installed; tasks are looked for every 0.1 s; what JAX compiles is kept."""


@dataclass(frozen=True)
class Federation:
    """What runs, and how to reach it."""

    group: Group
    folder: Path
    port: int
    certificates: Certificates | None
    simulated: int = 0
    """How many nodes Flower simulates; 0 where they are real."""

    def start_node(self, name: str, config: Mapping[str, str | int], key: Path | None = None) -> None:
        """A SuperNode, told only what its silo needs."""
        trust = ["--insecure"]
        if self.certificates is not None:
            known = [] if key is None else ["--auth-supernode-private-key", str(key)]
            trust = ["--root-certificates", str(self.certificates.authority), *known]
        place = ["--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1", "--port", str(free_port())]
        self.group.start(name, ["flower-supernode", *place, *trust, "--node-config", _said(config)])

    def register(self, public: Path) -> None:
        """Let the SuperLink know a node's key."""
        self.group.call("register", ["flwr", "supernode", "register", str(public), CONNECTION])

    def start_run(self, app: Path, config: Mapping[str, str | int | float], name: str = "run") -> None:
        """Submit an app, and follow what it says."""
        simulation = (
            ["--federation-config", f"num-supernodes={self.simulated} client-resources-num-cpus=1"]
            if self.simulated
            else []
        )
        self.group.start(
            name, ["flwr", "run", str(app), CONNECTION, "--stream", *simulation, "--run-config", _said(config)]
        )


def _said(config: Mapping[str, str | int | float]) -> str:
    """As Flower's command line takes it."""
    quoted = {name: f'"{value}"' if isinstance(value, str) else str(value) for name, value in config.items()}
    return " ".join(f"{name}={value}" for name, value in quoted.items())


@contextlib.contextmanager
def _linked(folder: Path, *, tls: bool, nodes: int, environment: Mapping[str, str]) -> Iterator[Federation]:
    """A SuperLink that listens; all that is started beside it ends with it."""
    home = folder / "flower"
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    certificates = make_certificates(folder / "certificates") if tls else None
    reach = {"insecure": True} if certificates is None else {"root-certificates": str(certificates.authority)}
    connection = {"address": f"127.0.0.1:{port}", **reach}
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}}))
    beside = str(Path(sys.executable).parent)
    variables = {
        **QUIET,
        "FLWR_HOME": str(home),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # every slot is a new process in a deployment
        "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}",
        **environment,
    }
    with Group(folder / "logs", variables) as group:
        secured = ["--insecure"]
        if certificates is not None:
            files = {"ca-certfile": certificates.authority, "certfile": certificates.certificate}
            secured = [word for name, file in files.items() for word in (f"--ssl-{name}", str(file))]
            secured += ["--ssl-keyfile", str(certificates.key), "--enable-supernode-auth"]
        kind = ["--simulation"] if nodes else ["--database", str(home / "state.db")]
        place = ["--host", "127.0.0.1", "--port", str(port), "--disable-runtime-dependency-installation"]
        group.start(LINK, ["flower-superlink", *secured, *kind, *place])
        _listening(group, LINK, port)
        yield Federation(group, folder, port, certificates, nodes)


def _listening(group: Group, name: str, port: int) -> None:
    until = time.monotonic() + STARTING
    while time.monotonic() < until:
        group.check([name])
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise PotluckError(f"{name} does not listen after {STARTING:g} s; see {group.log(name)}")


@contextlib.contextmanager
def simulated(folder: Path, silos: int, environment: Mapping[str, str] | None = None) -> Iterator[Federation]:
    """Flower's simulation engine."""
    try:
        import ray  # noqa: F401
    except ModuleNotFoundError:
        raise PotluckError("the simulation engine needs Ray; install it with: pip install 'flwr[simulation]'") from None
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch,  # sockets need short names
        _linked(
            folder, tls=False, nodes=silos, environment={"RAY_TMPDIR": scratch, **(environment or {})}
        ) as federation,
    ):
        yield federation


@contextlib.contextmanager
def deployed(
    consortium: Consortium,
    *,
    tls: bool = False,
    environment: Mapping[str, str] | None = None,
    silos: Sequence[int] | None = None,
) -> Iterator[Federation]:
    """A SuperLink and a SuperNode for every silo of a consortium; with TLS only those whose keys it knows may join."""
    count = len(consortium.names)
    with _linked(consortium.folder, tls=tls, nodes=0, environment=environment or {}) as federation:
        for silo in range(count) if silos is None else silos:
            key = consortium.terms(silo).with_name("node.key")
            if tls:
                federation.register(make_node_key(key))
            federation.start_node(consortium.names[silo], node_config(consortium, silo), key if tls else None)
        yield federation


def node_config(consortium: Consortium, silo: int) -> dict[str, str | int]:
    """What a silo's SuperNode is told at its start."""
    return {
        "partition-id": silo,
        "num-partitions": len(consortium.names),
        "terms": str(consortium.terms(silo)),
        "agent-state": str(consortium.state(silo)),
    }
