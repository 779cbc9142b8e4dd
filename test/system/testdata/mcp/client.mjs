// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// The official TypeScript client with `warren mcp`: it forks a machine, breaks one copy, compares, and keeps the other.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const fact = (what, is) => console.log(`${what}: ${is}`)
const client = new Client({ name: 'test', version: '1' })
await client.connect(new StdioClientTransport({ command: process.env.WARREN_BINARY, args: ['mcp'], env: process.env }))

const tool = async (name, args, options) => {
  const answer = await client.callTool({ name, arguments: args }, undefined, options)
  if (answer.isError) throw new Error(`${name}: ${answer.content[0].text}`)
  return answer.structuredContent
}
const exec = (machine, command) => tool('exec', { machine, command })

// The client checks each answer against the schema of its tool.
const { tools } = await client.listTools()
fact('tools are listed', tools.length >= 15 && tools.every((t) => t.inputSchema && t.outputSchema && t.annotations))

await tool('write_file', { machine: 'app', path: '/root/check.sh', content: 'grep -q works /root/app.txt\n', mode: '755' })
await tool('write_file', { machine: 'app', path: '/root/app.txt', content: 'it works\n' })
const { copies } = await tool('fork', { machine: 'app', count: 2, name: 'try' })
fact('two copies run', copies.length === 2)
await exec('try-1', 'echo broken > /root/app.txt')
await exec('try-2', 'echo and better >> /root/app.txt')
const { candidates, same_fork } = await tool('compare', { machines: ['try-1', 'try-2'], run: 'sh /root/check.sh' })
fact('the broken copy fails its check', same_fork && candidates[0].run.exit_code === 1)
fact('the other one passes', candidates[1].run.exit_code === 0 && candidates[1].changes.modified >= 1)
await tool('keep', { machine: 'try-2', over: 'app', delete_replaced: true, delete_others: true })
const { machines } = await tool('list_machines', {})
fact('only the good copy is left', machines.length === 1 && machines[0].name === 'app')
fact('it has the name of the original', (await exec('app', 'cat /root/app.txt')).stdout === 'it works\nand better\n')

await tool('mark_turn', { machine: 'app', note: 'before the mistake' })
await exec('app', 'rm /root/app.txt')
const changes = await tool('diff', { machine: 'app' })
fact('the diff names the lost file', changes.changes.some((c) => c.verb === 'deleted' && c.path === '/root/app.txt'))
await tool('undo', { machine: 'app' })
fact('undo brings it back', (await exec('app', 'cat /root/app.txt')).stdout.startsWith('it works'))

const abort = new AbortController()
let heard = 0
const call = tool('exec', { machine: 'app', command: 'while :; do echo step; sleep 0.5; done' }, { signal: abort.signal, onprogress: (p) => { heard += p.message === 'step'; if (heard === 2) abort.abort('enough') } })
let cancelled = false
await call.catch(() => { cancelled = true })
fact('progress has the last line of output', heard === 2)
const ended = async () => (await tool('processes', { machine: 'app', action: 'list' })).processes.every((p) => p.ended_at)
for (let i = 0; i < 100 && !(await ended()); i++) await new Promise((done) => setTimeout(done, 100))
fact('a cancelled command has ended', cancelled && await ended())

const refused = await client.callTool({ name: 'exec', arguments: { machine: 'nowhere', command: 'true' } })
fact('a failure says what to do', refused.isError && refused.content[0].text.includes('hint: '))

const { terminal } = await tool('terminal', { machine: 'app', action: 'open' })
let typed = await tool('terminal', { machine: 'app', action: 'send', terminal, text: 'cd /tmp; echo in $PWD\r', quiet_ms: 1000 })
// A busy host may need longer until the shell answers.
for (let i = 0; i < 20 && !typed.screen.includes('in /tmp'); i++) typed = await tool('terminal', { machine: 'app', action: 'send', terminal, quiet_ms: 500 })
fact('a terminal shows what was typed', typed.screen.includes('in /tmp'))
const screen = await client.readResource({ uri: `warren://machines/app/terminals/${terminal}` })
fact('its screen is a resource', screen.contents[0].text.includes('in /tmp'))
await client.close()
