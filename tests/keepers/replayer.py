"""A keeper that says what a recorded one said: `python replayer.py DIRECTORY RECORDING [HELLO]`.

It answers a call as the recorded one with the same method and at least the same arguments was answered, whatever its
number. Whoever asks something else is cut off. `HELLO` is JSON that it says instead of the recorded greeting.
"""

import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any

KINDS = ["", "HELLO", "CALL", "RESULT", "ERROR", "DATA", "END", "CREDIT", "CANCEL", "LATER"]
HEAD = struct.Struct("!IBI")


def main(directory: Path, recording: Path, hello: str | None) -> None:
    lines = [json.loads(line) for line in recording.read_text().splitlines()]
    os.chdir(directory)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("keeper.sock")
    listening.listen()
    print("listening", flush=True)
    while True:
        connection, _ = listening.accept()
        with connection:
            serve(connection, lines, hello)


def serve(connection: socket.socket, lines: list[dict[str, Any]], hello: str | None) -> None:
    while head := connection.recv(HEAD.size, socket.MSG_WAITALL):
        length, kind, call = HEAD.unpack(head)
        body = connection.recv(length - 5, socket.MSG_WAITALL) if length > 5 else b""
        if KINDS[kind] == "HELLO":
            said = next(
                line["body"] for line in lines if line.get("kind") == "HELLO" and line["from"] == "keeper"
            )
            send(connection, "HELLO", 0, json.loads(hello) if hello else said)
        elif KINDS[kind] == "CALL":
            asked = json.loads(body)
            if asked["method"] == "close":
                send(connection, "RESULT", call, {})
                os._exit(0)
            for line in answers(lines, asked):
                send(connection, line["kind"], call, line["body"])


def answers(lines: list[dict[str, Any]], asked: dict[str, Any]) -> list[dict[str, Any]]:
    for line in lines:
        if line.get("kind") != "CALL" or line["body"]["method"] != asked["method"]:
            continue
        if line["body"]["arguments"].items() <= asked["arguments"].items():
            return [each for each in lines if each.get("from") == "keeper" and each["call"] == line["call"]]
    raise SystemExit(f"nobody recorded an answer to {asked}")


def send(connection: socket.socket, kind: str, call: int, document: Any) -> None:
    body = json.dumps(document).encode()
    connection.sendall(HEAD.pack(len(body) + 5, KINDS.index(kind), call) + body)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
