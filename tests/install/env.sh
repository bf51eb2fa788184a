# Where the tests keep what they install. Sourced by the install scripts and by tests/run.
#
# Everything that is fetched goes to one folder, which may be deleted at any time: RINGLOG_TEST_CACHE, or
# $HOME/.cache/ringlog-tests. Each part is installed once for each content of its lock file.

set -euo pipefail
TESTS="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export RINGLOG_TEST_CACHE="${RINGLOG_TEST_CACHE:-${HOME:-/root}/.cache/ringlog-tests}"
CACHE="$RINGLOG_TEST_CACHE"
mkdir -p "$CACHE/stamps"

# fresh NAME FILE...: true where part NAME was installed from these very files.
fresh() {
    local name="$1"
    shift
    [ -f "$CACHE/stamps/$name" ] && [ "$(cat "$CACHE/stamps/$name")" = "$(cat "$@" | sha256sum)" ]
}

# installed NAME FILE...: remembers that part NAME stands as these files say.
installed() {
    local name="$1"
    shift
    cat "$@" | sha256sum > "$CACHE/stamps/$name"
}
