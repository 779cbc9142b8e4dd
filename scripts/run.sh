#!/usr/bin/env bash
# make run: base image, server in the background, a first workspace.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/bin:$PATH"

step() { printf '\n==> %s\n' "$*"; }

step "what this host offers"
warren doctor || true

step "base image (kept for next time)"
warren image build base

step "server"
if warren ls >/dev/null 2>&1; then
  echo "already running"
else
  data=$(warren config show --json | sed -n 's/.*"data": *"\([^"]*\)".*/\1/p')
  log="$data/serve.log"
  setsid warren serve >>"$log" 2>&1 </dev/null &
  pid=$!
  for _ in $(seq 150); do
    warren ls >/dev/null 2>&1 && break
    if ! kill -0 "$pid" 2>/dev/null; then
      echo "the server ended at once; its log says:" >&2
      tail -n 20 "$log" >&2
      exit 1
    fi
    sleep 0.2
  done
  warren ls >/dev/null 2>&1
  echo "running as process $pid, log in $log"
fi

step "a first workspace"
warren inspect hello >/dev/null 2>&1 || warren up --name hello
warren exec hello -- sh -c 'echo "hello from $(hostname), $(uname -sr), up $(cut -d" " -f1 /proc/uptime) s"; systemctl is-system-running'
echo 'two workspaces, two machines:'
warren inspect hello-2 >/dev/null 2>&1 && warren rm hello-2 >/dev/null
# The second comes from the warm pool, as most do, unless the host is too busy to fill it.
for try in $(seq 20); do
  said=$(warren up --name hello-2 2>&1) || { echo "$said" >&2; exit 1; }
  if warren audit ls --vm hello-2 --json | grep -q '"pooled": *true'; then
    break
  fi
  if [ "$try" = 20 ]; then
    echo "the host is busy: no VM was prepared in advance, so that a create takes longer"
    break
  fi
  warren rm hello-2 >/dev/null
  sleep 1
done
for name in hello hello-2; do
  printf '  %-8s machine-id %s\n' "$name" "$(warren exec "$name" -- cat /etc/machine-id)"
done

step "a copy of the second, as it runs"
warren exec hello-2 -- sh -c 'echo as it was >/run/mark'
warren fork hello-2 --name copy
warren exec copy-1 -- sh -c 'echo "$(hostname): $(cat /run/mark)"'
warren rm copy-1 hello-2 >/dev/null

cat <<EOF

The server keeps running in the background. Next:
  export PATH="$PWD/bin:\$PATH"
  warren exec hello -- uname -a        run a command
  warren cp FILE hello:/work/          copy a file in
  warren ls                            what is there
  warren rm hello                      throw it away
EOF
