#!/usr/bin/env bash
# A coding agent's job from nothing to nothing: input copied in, work kept in an
# encrypted volume, a bounded result copied out, compute stopped, volume locked.
# It needs a running server, and `warren` in the PATH.
set -euo pipefail
cd "$(dirname "$0")"
image=${AGENT_IMAGE:-./agent-image}
out=${OUT:-.}

warren volume create coding-agent-work
warren volume unlock coding-agent-work
warren up "$image" --name coding-agent --ttl 1h
warren volume mount coding-agent --volume coding-agent-work --guest /workspace --rw
warren cp ./task.json coding-agent:/work/task.json
warren cp ./run_task.py coding-agent:/work/run_task.py
warren exec coding-agent --timeout 120 -- python /work/run_task.py
warren cp --max-bytes 16777216 coding-agent:/work/result.json "$out/result.json"
warren volume unmount coding-agent /workspace
warren down coding-agent
warren volume lock coding-agent-work
warren audit ls --json > "$out/receipts.json"
