# The two commands of the README: `make demo` and `make test`. Both find or make their own Python
# environment (scripts/in_env.sh says how) and need Python >= 3.10, g++, git and make, no more.

ENV   := scripts/in_env.sh
# pytest options: e.g. make pytest PYTEST="-n 2 testing/python/layout"
PYTEST ?= -n logical --dist worksteal -m "not requires_cuda" --tier=$(TIER)
# Which cases run: quick, change or all (testing/python/tiers.py).
TIER ?= change
CPP_TEST = $(if $(filter all,$(TIER)),cpp-test,cpp-test-linked)

CPP_FILES = $(shell find src testing/cpp -name '*.h' -o -name '*.cc')

.PHONY: demo test test-all quick pytest cpp-test cpp-test-linked check format docs clean help

help:
	@echo 'make demo | test | test-all | quick | pytest | cpp-test | check | format | docs | clean'

demo:
	@$(ENV) demo python scripts/demo.py

test:
	@$(ENV) test sh -c 'echo "== make check $(CPP_TEST)"; \
	  $(MAKE) -j2 --no-print-directory IN_ENV=1 check $(CPP_TEST) && echo "== make pytest" && \
	  $(MAKE) --no-print-directory IN_ENV=1 pytest'

# Every target and every schedule, and C++ tests under sanitizers: once a night, and before a release.
test-all:
	@$(MAKE) --no-print-directory TIER=all test

# The inner loop: one case of each test that does not take long.
quick:
	@$(MAKE) --no-print-directory TIER=quick pytest

# Inside `make test` the environment is already there.
ifdef IN_ENV
TEST_ENV :=
CHECK_ENV :=
else
TEST_ENV := $(ENV) test
CHECK_ENV := $(ENV) check
endif

pytest:
	@$(TEST_ENV) python -c 'import tilelang._ffi'
	@$(TEST_ENV) pytest $(PYTEST)

# The C++ unit tests, under the address and undefined-behaviour sanitizers.
cpp-test:
	@$(TEST_ENV) cmake -S . -B build/sanitize -G Ninja -DTILELANG_BUILD_CPP_TESTS=ON \
	  -DTILELANG_SANITIZE=address,undefined -DTILELANG_PRECOMPILED_HEADERS=ON \
	  -DTILELANG_UNITY_BATCH=8 --log-level=WARNING
	@env -u MAKEFLAGS $(TEST_ENV) cmake --build build/sanitize --target cpp_tests  # ninja counts cores
	@$(TEST_ENV) ctest --test-dir build/sanitize -j2 --output-on-failure

# The same tests with the objects that the library of the environment was built from: only the tests
# are compiled, and more mutants run in a fraction of the time.
cpp-test-linked:
	@$(TEST_ENV) sh -c 'cmake -S . -B build/wheel -G Ninja -DCMAKE_MAKE_PROGRAM="$$(command -v ninja)" \
	  -DTILELANG_BUILD_CPP_TESTS=ON -DTILELANG_PRECOMPILED_HEADERS=ON -DTILELANG_UNITY_BATCH=8 \
	  --log-level=WARNING'
	@env -u MAKEFLAGS $(TEST_ENV) cmake --build build/wheel --target cpp_tests
	@PTX_FUZZ="0 10000" $(TEST_ENV) ctest --test-dir build/wheel -j2 --output-on-failure

check:
	@$(CHECK_ENV) ruff format --check --quiet .
	@$(CHECK_ENV) ruff check --quiet .
	@$(CHECK_ENV) clang-format --dry-run -Werror --ferror-limit=1 $(CPP_FILES)
	@$(CHECK_ENV) python scripts/check_sizes.py
	@$(CHECK_ENV) python scripts/check_names.py
	@$(CHECK_ENV) python scripts/check_rooms.py
	@$(CHECK_ENV) mypy tilelang

format:
	@$(CHECK_ENV) clang-format -i $(CPP_FILES)
	@$(CHECK_ENV) ruff format --quiet .
	@$(CHECK_ENV) ruff check --fix --quiet .

docs:
	@$(ENV) docs sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo 'docs/_build/html/index.html'

clean:
	rm -rf build docs/_build docs/generated
