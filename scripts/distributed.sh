#!/usr/bin/env bash
# The tests that need servers: `make test-distributed`, also run by CI. The tests start PostgreSQL and Temporal
# themselves; this only looks for the programs. Where PostgreSQL is missing it is installed if that can be done without
# asking anybody (root, apt); else the tests are skipped, and that is said.
#
# Usage: scripts/distributed.sh PYTHON [arguments of pytest]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$1
shift
limit=${CAPATAZ_DISTRIBUTED_SECONDS:-600}

has_postgres() {
    command -v initdb >/dev/null 2>&1 || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null
}

if ! has_postgres && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "test-distributed: no PostgreSQL on this machine, trying apt-get"
    export DEBIAN_FRONTEND=noninteractive
    timeout 120 apt-get update -qq >/dev/null 2>&1 || true
    timeout 180 apt-get install -y -qq --no-install-recommends postgresql >/dev/null 2>&1 || true
fi
if ! has_postgres; then
    echo "test-distributed: SKIPPED, there is no PostgreSQL server here (Debian: apt-get install postgresql)"
    exit 0
fi
if ! "$python" -m pip install --quiet --quiet --requirement requirements-distributed.lock; then
    echo "test-distributed: Temporal's server cannot be installed here; the tests that need it are skipped"
fi

CAPATAZ_DISTRIBUTED=1 timeout --signal=INT --kill-after=30 "$limit" "$python" -m pytest tests/distributed "$@" || {
    status=$?
    [ "$status" = 124 ] && echo "test-distributed: not done after $limit s"
    exit "$status"
}
