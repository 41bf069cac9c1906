"""A line to a database that can be cut at the worst moment: between a commit and its answer."""

import socket
from threading import Thread


class CuttingProxy:
    """Hands on what is said both ways, until `cuts_at_commit`: then the next COMMIT is handed on, and its
    answer is not."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts_at_commit = False
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            Thread(target=self._to_server, args=(client, server), daemon=True).start()
            Thread(target=self._to_client, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while said := client.recv(65536):
                if self.cuts_at_commit and b"COMMIT" in said:
                    self.cuts_at_commit = False
                    client.shutdown(socket.SHUT_RDWR)
                    server.sendall(said)
                    return
                server.sendall(said)
        except OSError:
            pass
        server.close()

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while said := server.recv(65536):
                client.sendall(said)
        except OSError:
            pass
        client.close()
