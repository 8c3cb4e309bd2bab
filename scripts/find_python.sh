#!/bin/sh
# Prints the first Python >= 3.12 that can make virtual environments, or says on stderr what is missing.
# The environment variable PYTHON names one to try first.

check='
import sys
if sys.version_info < (3, 12):
    sys.exit("is Python %d.%d" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError as error:
    sys.exit("lacks the module %s (on Debian and Ubuntu: install the package python3-venv)" % error.name)
print(sys.executable)
'
rejected=''

try_python() {
    [ -n "$1" ] && command -v "$1" >/dev/null 2>&1 || return 0
    if answer=$("$1" -c "$check" 2>&1 </dev/null); then
        printf '%s\n' "$answer"
        exit 0
    fi
    rejected="$rejected
  $1: $(printf '%s' "$answer" | tail -n 1)"
}

try_python "${PYTHON:-}"
[ -z "${PYTHON:-}" ] || echo "PYTHON=$PYTHON will not do, looking for another:${rejected:-
  $PYTHON: not found}" >&2
for candidate in python3 python3.12 python3.13 python3.14 python; do
    try_python "$candidate"
done
# pyenv's shims refuse to start what .python-version does not select, so its versions are tried by their paths.
if command -v pyenv >/dev/null 2>&1; then
    for candidate in "$(pyenv root)"/versions/3.*/bin/python; do
        try_python "$candidate"
    done
fi

{
    echo "pathfold needs Python 3.12 or newer, with the venv module, and found none."
    [ -z "$rejected" ] || echo "Tried:$rejected"
    echo "Install one (for example with your system's package manager, or 'pyenv install 3.12'),"
    echo "or name one you have: make install PYTHON=/path/to/python3.12"
} >&2
exit 1
