"""Run as another user: one request over the unix socket, told and answered as JSON."""

import http.client
import json
import socket
import sys

path, method, target, body, headers = json.load(sys.stdin)
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(path)
connection.request(method, target, None if body is None else json.dumps(body), headers)
answer = connection.getresponse()
json.dump([answer.status, dict(answer.getheaders()), answer.read().decode("latin-1")], sys.stdout)
