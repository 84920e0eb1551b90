#!/usr/bin/env bash
# Check the explorer's scripts with ESLint and TypeScript. Where the two cannot be had, say so in one line and succeed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "JavaScript checks skipped: there is no Node.js here"
    exit 0
fi
installed=$here/node_modules/.package-lock.json
if [ ! -e "$installed" ] || [ "$here/package-lock.json" -nt "$installed" ]; then
    if ! said=$(npm ci --prefix "$here" --engine-strict --ignore-scripts --no-audit --no-fund 2>&1); then
        code=$(sed -n 's/^npm \(error\|ERR!\) code //p' <<<"$said" | head -n 1)
        case $code in
        # no network, no registry, a registry without these packages, or a Node.js that is too old
        EAI_AGAIN | ENOTFOUND | ECONN* | ENETUNREACH | EHOSTUNREACH | ETIMEDOUT | ERR_SOCKET_TIMEOUT | ENOTCACHED | \
        FETCH_ERROR | ETARGET | E4?? | E5?? | EBADENGINE)
            echo "JavaScript checks skipped: npm cannot install ESLint and TypeScript ($code)"
            exit 0
            ;;
        esac
        echo "$said" >&2
        exit 1
    fi
fi
"$here/node_modules/.bin/eslint" --config "$here/eslint.config.js" --max-warnings 0 src/effective_attention/explorer/static
"$here/node_modules/.bin/tsc" --project "$here"
