#!/usr/bin/env bash
# usage: scripts/in_env.sh GROUP COMMAND...
#
# Runs COMMAND from the project's root in an environment that has the package, its C++ library and
# the packages of GROUP: "demo", which needs no more, or a key of [dependency-groups] in
# pyproject.toml. That environment is
#   - the active virtual environment,
#   - else a python3 on PATH that has all of it already,
#   - else .venv, made here from the first Python >= 3.10 found.
# What is missing is installed, the package itself in editable form: a changed C++ source is
# rebuilt on the next import.
set -euo pipefail
cd "$(dirname "$0")/.."
group=$1
shift

case $group in
  demo) modules="numpy" ;;
  test) modules="torch pytest xdist hypothesis mypy ruff clang_format cmake ninja nvidia.cu13.bin nvidia.cu13.include.cccl zarr tensorstore jax_tvm_ffi jsonschema mcp pyright nbclient ipykernel sphinx myst_parser furo helion nvidia_cutlass_dsl" ;;
  docs) modules="sphinx myst_parser furo torch triton" ;;
  check) modules="mypy ruff clang_format" ;;
  *) echo "in_env.sh: unknown group '$group'" >&2; exit 2 ;;
esac

# Run from / so that the source tree beside us is not taken for an installed package.
has() { (cd / && "$1" -c 'import platform, sys, importlib.util as u
import tilelang._ffi
without = {"zarr", "tensorstore", "jax_tvm_ffi"} if sys.version_info < (3, 11) else set()  # need 3.11
without |= set() if platform.machine() == "x86_64" else {"helion", "triton"}
sys.exit(not all(map(u.find_spec, set(sys.argv[1:]) - without)))' $modules) >/dev/null 2>&1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

make_venv() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10; do
    if new_enough "$candidate"; then
      "$candidate" -m venv .venv
      return
    fi
  done
  echo "in_env.sh: no Python >= 3.10 on PATH; name one: make PYTHON=/path/to/python3 ..." >&2
  exit 1
}

if [ -n "${VIRTUAL_ENV:-}" ] && [ -x "$VIRTUAL_ENV/bin/python" ]; then
  python=$VIRTUAL_ENV/bin/python
elif [ ! -e .venv ] && command -v python3 >/dev/null && has python3; then
  python=$(command -v python3)
else
  [ -x .venv/bin/python ] || make_venv
  python=$PWD/.venv/bin/python
fi

# The pinned torch is the CPU build where there is no GPU: PyTorch's own index has it, and a local
# version such as 2.13.0+cpu wins over the plain one whichever index it comes from.
cpu_index() {
  [ -e /dev/nvidiactl ] && return
  local url=https://download.pytorch.org/whl/cpu
  if "$python" -c "import urllib.request as r; r.urlopen('$url/torch/', timeout=5)" 2>/dev/null; then
    echo "--extra-index-url $url"
  fi
}

stamp=$("$python" -c 'import sys; print(sys.prefix)')/.tilelang-$group
stale() { [ -e "$stamp" ] && [ pyproject.toml -nt "$stamp" ]; }
if stale || ! has "$python"; then
  pip() { "$python" -m pip --disable-pip-version-check "$@"; }
  torch=
  case $group in
    test | docs) torch="$(cpu_index) $(grep -o -m1 'torch==[0-9.]*' pyproject.toml)" ;;
  esac
  build_tools=$(grep '^requires = ' pyproject.toml | grep -o '"[^"]*"' | tr -d '"')
  # A rebuild on import is quick when the build tools stay in the environment, hence no isolation.
  echo "in_env.sh: installing what '$group' needs and building the library"
  pip install --quiet $build_tools
  # The library builds on all cores while pip, on one, downloads and unpacks the other packages.
  pip install --quiet --no-build-isolation --no-deps -e . &
  building=$!
  trap 'kill $building 2>/dev/null' EXIT
  [ -z "$torch" ] || pip install --quiet $torch
  "$python" scripts/requirements_of.py ${group#demo} | pip install --quiet -r /dev/stdin
  wait $building
  trap - EXIT
  touch "$stamp"
fi

PATH=$(dirname "$python"):$PATH exec "$@"
