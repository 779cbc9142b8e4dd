# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""A runner of hosted agents: one machine for each conversation, asleep between turns."""

import argparse
import hashlib

import warren


class Conversations:
    """Finds the machine of a conversation. It keeps no state, so any number of runners may share a server."""

    def __init__(self, idle: int) -> None:
        self.server, self.idle = warren.Warren(), idle

    def machine(self, conversation: str) -> warren.Machine:
        """The machine of a conversation. The first turn makes it."""
        name = "chat-" + hashlib.sha256(conversation.encode()).hexdigest()[:16]  # an id may be any text
        try:
            return self.server.get(name)
        except warren.NotFoundError:
            pass
        try:
            return self.server.create("base", name=name, unique_name=True, idle_timeout=self.idle)
        except warren.ExistsError:  # another runner was faster
            return self.server.get(name)

    def turn(self, conversation: str, message: str) -> str:
        """One turn. A machine that sleeps wakes at its first command, with all that it had."""
        return agent(self.machine(conversation), message)

    def end(self, conversation: str) -> None:
        self.machine(conversation).delete()


def agent(machine: warren.Machine, message: str) -> str:
    """Put your agent here. This one needs no model: a message is a command, and the reply is what it prints."""
    return machine.run(message, timeout=600).stdout


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument("--idle", type=int, default=60, help="seconds until a machine sleeps after a turn")
    args.add_argument("--end", action="store_true", help="delete the machine of the conversation")
    args.add_argument("conversation")
    args.add_argument("message", nargs="?", default="")
    said = args.parse_args()
    conversations = Conversations(said.idle)
    if said.end:
        conversations.end(said.conversation)
    else:
        print(conversations.turn(said.conversation, said.message), end="")


main()
