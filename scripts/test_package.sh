#!/bin/sh
# Builds the wheel and the sdist, installs each into an environment of its own, away from the checkout, and tries it:
# the wheel with `pathfold doctor`, the sdist with its own tests (those that take seconds, or what the arguments name).

set -eu
root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
[ $# -gt 0 ] || set -- tests/schemes tests/test_cli.py tests/test_docs.py tests/test_layers.py tests/test_method.py tests/test_project.py

install() { # environment, what
    "$root/.venv/bin/python" -m venv "$folder/$1"
    "$folder/$1/bin/python" -m pip --disable-pip-version-check --no-input -qq install --constraint "$root/constraints.txt" "$2"
}

"$root/.venv/bin/python" -m hatchling build --directory "$folder/dist" --target wheel --target sdist
cd "$folder"
ls -sh dist

echo "== the wheel"
install wheel "$(echo dist/*.whl)"
wheel/bin/pathfold doctor

echo "== the sdist"
tar xzf dist/*.tar.gz
install sdist "$(echo "$PWD"/pathfold-*/)[plots,files,dev]"
cd pathfold-*/
"$folder/sdist/bin/python" -m pytest --collect-only -qq -m 'slow or not slow' >/dev/null
"$folder/sdist/bin/python" -m pytest -q "$@"
