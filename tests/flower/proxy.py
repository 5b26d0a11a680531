"""Between SuperNodes and SuperLink: passes every byte on, and keeps a copy."""

import contextlib
import socket
import threading
from collections.abc import Iterator


class Tap:
    """Everything that passed, by connection and direction."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._streams: list[bytearray] = []
        self._ends: list[socket.socket] = []
        self._passing: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def bodies(self) -> list[bytes]:
        """What passed, each direction of each connection in one piece."""
        return [bytes(stream) for stream in self._streams]

    def close(self) -> None:
        """Take no more connections, and cut those there are."""
        _cut(self._server)  # wakes who waits in accept, which closing alone does not
        self._accepting.join()
        for end in self._ends:
            _cut(end)
        for passing in self._passing:
            passing.join()
        for end in (self._server, *self._ends):
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self._ends.append(near)
                far = socket.create_connection(("127.0.0.1", self._target))
                self._ends.append(far)
                for source, sink in ((near, far), (far, near)):
                    stream = bytearray()
                    self._streams.append(stream)
                    passing = threading.Thread(target=self._pass, args=(source, sink, stream), daemon=True)
                    self._passing.append(passing)
                    passing.start()

    def _pass(self, source: socket.socket, sink: socket.socket, stream: bytearray) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                stream += chunk
                sink.sendall(chunk)
        for end in (source, sink):
            _cut(end)


def _cut(end: socket.socket) -> None:
    """Whoever waits on this socket, on either side, waits no longer."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def tapped(port: int) -> Iterator[Tap]:
    """A port that leads to another one."""
    tap = Tap(port)
    try:
        yield tap
    finally:
        tap.close()
