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
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bodies(self) -> list[bytes]:
        """What passed, each direction of each connection in one piece."""
        return [bytes(stream) for stream in self._streams]

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for source, sink in ((near, far), (far, near)):
                    stream = bytearray()
                    self._streams.append(stream)
                    threading.Thread(target=self._pass, args=(source, sink, stream), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, stream: bytearray) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                stream += chunk
                sink.sendall(chunk)
        for end in (source, sink):
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
