#!/bin/sh
# Creates the virtual environment $1 from python3 alone. Debian keeps `venv` in a package of its own,
# which is installed here where we may, and named where we may not.
set -eu
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "potluck: python3 is $(python3 -V 2>&1), and 3.11 or later is needed" >&2; exit 2; }
[ -x "$1/bin/pip" ] && exit 0
echo "Setting up $1 (a minute or two, once)"
rm -rf "$1"
if ! python3 -c 'import ensurepip' 2>/dev/null; then
    { [ "$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq python3-venv; } >/dev/null || {
        echo "potluck: python3 has no venv module; install it with: sudo apt-get install python3-venv" >&2; exit 2; }
fi
exec python3 -m venv "$1"
