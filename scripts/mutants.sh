#!/usr/bin/env bash
# Changes packages, one spot at a time, runs each one's tests on it, and says which
# changes none of them noticed and the score: of the changes that a test ran over,
# how many made one fail. Only these are tried. Fails below 80 %.
# mutants.sh "PACKAGE ..." [COMMIT]; with a commit only lines that changed since.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
for pkg in $1; do
	echo "== internal/$pkg"
	# One at a time: tests that wait for something run on a machine of their own.
	nice -n 15 bin/gremlins unleash "./internal/$pkg" ${2:+--diff "$2"} \
		--workers 1 --timeout-coefficient 3 --output-statuses lctv --threshold-efficacy 80 || failed=1
done
exit $failed
