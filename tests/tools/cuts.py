#!/usr/bin/env python3
"""A TCP proxy that cuts what goes through it, in one process for one server.

    cuts.py LISTEN_PORT TARGET_PORT ORDERS

ORDERS is a file with one word, which may change at any time:

    pass         all goes through
    cut          all connections end, and so does each new one
    silent       nothing goes through, either way; connections stay, and what was held back goes on later
    silent-up    only what comes from the server goes through
    silent-down  only what goes to the server goes through
    lose:N       the answers of the next N transactions that end with COMMIT do not come: the server
                 has committed, and the connection ends. A line in ORDERS.lost for each

ORDERS.obeyed has the word that holds by now: who gives an order waits for it there.
It ends with the process that started it.
"""

import asyncio
import os
import sys

PIECE = 65536
LOOK_S = 0.02
COMMIT, ROLLBACK = b"COMMIT\0", b"ROLLBACK\0"


class Orders:
    def __init__(self, path):
        self.path, self.word, self.to_lose = path, None, 0
        self.changed, self.connections = asyncio.Event(), set()

    async def watch(self):
        parent = os.getppid()
        while os.getppid() == parent:
            try:
                with open(self.path) as file:
                    word = file.read().strip() or self.word
            except FileNotFoundError:
                word = self.word
            if word != self.word:
                self.obey(word)
            await asyncio.sleep(LOOK_S)

    def obey(self, word):
        self.word = word
        self.to_lose = int(word.split(":")[1]) if word.startswith("lose:") else 0
        if word == "cut":
            for connection in list(self.connections):
                connection.end()
        self.changed.set()
        self.changed = asyncio.Event()
        with open(self.path + ".obeyed.new", "w") as file:
            file.write(word)
        os.rename(self.path + ".obeyed.new", self.path + ".obeyed")

    def lost(self):
        self.to_lose -= 1
        with open(self.path + ".lost", "a") as file:
            file.write("lost\n")

    async def may(self, way):
        while self.word in ("silent", "silent-" + way):
            await self.changed.wait()


class Connection:
    def __init__(self, orders, client, server):
        self.orders, self.client, self.server = orders, client, server
        self.tail, self.held = b"", None

    def end(self):
        for _, writer in (self.client, self.server):
            writer.transport.abort()

    async def up(self):
        reader, writer = self.client[0], self.server[1]
        while piece := await reader.read(PIECE):
            await self.orders.may("up")
            text = self.tail + piece
            self.tail = text[-len(COMMIT) + 1:]
            if self.held is None and self.orders.to_lose > 0 and COMMIT in text:
                self.held = b""
            writer.write(piece)
            await writer.drain()
        await self.orders.may("up")
        writer.write_eof()

    async def down(self):
        reader, writer = self.server[0], self.client[1]
        while piece := await reader.read(PIECE):
            await self.orders.may("down")
            if self.held is not None:
                self.held += piece
                if COMMIT in self.held:
                    if self.orders.to_lose > 0:
                        self.orders.lost()
                        return self.end()
                elif ROLLBACK not in self.held:
                    continue
                piece, self.held = self.held, None
            writer.write(piece)
            await writer.drain()
        await self.orders.may("down")
        writer.write_eof()

    async def run(self):
        try:
            await asyncio.gather(self.up(), self.down())
        except OSError:
            pass
        finally:
            self.end()


async def main(listen, target, path):
    orders = Orders(path)

    async def accepted(reader, writer):
        if orders.word == "cut":
            return writer.transport.abort()
        await orders.may("up")
        try:
            server = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            return writer.transport.abort()
        connection = Connection(orders, (reader, writer), server)
        orders.connections.add(connection)
        try:
            await connection.run()
        finally:
            orders.connections.discard(connection)

    async with await asyncio.start_server(accepted, os.environ.get("CUTS_LISTEN", "127.0.0.1"), listen):
        await orders.watch()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
