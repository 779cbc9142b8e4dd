#!/usr/bin/env bash
# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0

# preview.sh REPOSITORY: a running preview for each branch of a git repository, a machine each. It prints a link
# for every branch. A second run updates the machines of branches that changed, and removes those of deleted branches.
set -euo pipefail
repository=${1:?which repository? preview.sh DIRECTORY}
port=${PORT:-8000}
start=${START:-exec python3 -m http.server $port}

# A machine has the labels preview=yes and branch=NAME, by which it is found again.
machine() { warren ls --label preview=yes --label "branch=$1" -q; }

wanted=
while read -r commit branch; do
    label=${branch//\//-}
    wanted="$wanted $label"
    vm=$(machine "$label")
    if [ -n "$vm" ] && [ "$(warren exec "$vm" -- cat /srv/commit)" = "$commit" ]; then
        continue
    fi
    if [ -n "$vm" ]; then
        warren rm -q --yes "$vm" >/dev/null
    fi
    vm=$(warren up -q --label preview=yes --label "branch=$label")
    tree=$(mktemp -d)
    git -C "$repository" archive "$commit" | tar -C "$tree" -x
    warren cp -q -r "$tree" "$vm:/srv/site"
    rm -rf "$tree"
    warren exec -q -d --cwd /srv/site "$vm" -- sh -c "$start" >/dev/null
    warren wait "$vm" --port "$port" >/dev/null
    warren exec "$vm" -- sh -c "echo $commit >/srv/commit"
    echo "$branch: $(warren preview "$vm" "$port" --link --for 72h)"
done < <(git -C "$repository" for-each-ref refs/heads --format='%(objectname) %(refname:short)')

for vm in $(warren ls --label preview=yes -q); do
    branch=$(warren inspect "$vm" --json | sed -n 's/.*"branch": *"\([^"]*\)".*/\1/p')
    case " $wanted " in *" $branch "*) ;; *)
        warren rm -q --yes "$vm" >/dev/null
        echo "$branch: removed"
        ;;
    esac
done
