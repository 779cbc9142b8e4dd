// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0
// An agent of the AI SDK whose commands run in a machine.

import { anthropic } from "@ai-sdk/anthropic";
import { ToolLoopAgent, isStepCount, tool } from "ai";
import { Warren } from "warren-vm";
import { z } from "zod";

const machine = await new Warren().machine("base");
try {
  const agent = new ToolLoopAgent({
    model: anthropic(process.env.MODEL ?? "claude-sonnet-4-6"),
    instructions: "You have a Linux computer of your own, and are root in it. Work in /work.",
    stopWhen: isStepCount(30),
    tools: {
      shell: tool({
        description: "Run a shell command in your computer.",
        inputSchema: z.object({ command: z.string() }),
        // The signal ends the command when the agent is stopped.
        execute: async ({ command }, { abortSignal }) => {
          const ended = await machine.run(command, { timeoutMs: 600_000, signal: abortSignal });
          return { exitCode: ended.exitCode, stdout: ended.stdout.slice(-20_000), stderr: ended.stderr.slice(-20_000) };
        },
      }),
      writeFile: tool({
        description: "Write a file in your computer. Directories above it are made.",
        inputSchema: z.object({ path: z.string(), text: z.string() }),
        execute: async ({ path, text }) => {
          await machine.files.write(path, text);
          return "written";
        },
      }),
    },
  });
  const { text } = await agent.generate({ prompt: process.argv[2] });
  console.log(text);
} finally {
  await machine.delete();
}
