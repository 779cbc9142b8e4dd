#!/usr/bin/env bash
# Changes packages one spot at a time, runs the package's tests on each change, and
# prints the changes that no test detected. The score is the share of detected
# changes among those in lines that a test executes. Fails below 80 %.
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
