# `make` builds the program; `make help` lists the rest. Nothing is installed outside the build folder and the cache
# folder (setup/toolchain.py), except Debian's libraries when they are missing, and a link in ~/.local/bin.

PYTHON := $(shell command -v python3)
ENV := $(shell $(PYTHON) setup/toolchain.py --print-env)
ifeq ($(ENV),)
$(error python3 (3.11 or newer) is needed first on PATH: its words, if any, are above)
endif
WHEEL_TOOLS := $(shell $(PYTHON) setup/toolchain.py --print-wheel)
TEST_PACKAGES := $(shell $(PYTHON) setup/toolchain.py --print-tests)
JOBS ?= $(shell $(PYTHON) setup/toolchain.py --print-jobs)
PROCESSOR ?= $(shell uname -m)
# The sources are clean with version 14, Debian 12's; other versions break some lines differently and find other faults.
CLANG_FORMAT ?= $(or $(shell command -v clang-format-14),clang-format)
CLANG_TIDY ?= $(or $(shell command -v clang-tidy-14),clang-tidy)
# Clang 14 cannot read the C++ library of a GCC newer than 12: it uses that of GCC 12 if it is installed (libstdc++-12-dev).
TIDY_LIBRARY := $(wildcard /usr/include/c++/12 /usr/include/*/c++/12)
TIDY_FLAGS ?= $(if $(TIDY_LIBRARY),--extra-arg=-nostdinc++ $(TIDY_LIBRARY:%=--extra-arg=-isystem%))
SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.cpp' '*.h' '*.cu' '*.cuh' ':!build')

export PATH := $(ENV)/bin:$(PATH)
export CMAKE_PREFIX_PATH := $(ENV)/site-packages/torch
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime

# $(call configure,PRESET): only when not yet done, or done with another toolchain, whose paths the
# CMake cache would otherwise keep.
configure = grep -qsF "$(ENV)/" build/$(1)/CMakeCache.txt && test -f build/$(1)/build.ninja || { mkdir -p build && \
  cmake --fresh --preset $(1) -DPython3_EXECUTABLE="$(ENV)/bin/python" > build/$(1).log 2>&1 || { echo; cat build/$(1).log; exit 1; }; }
# $(call compile,PRESET,WHAT,FLAGS): ninja shows its progress on a terminal only.
compile = @printf '[make] $(2) (minutes the first time, with $(JOBS) compilers) ... '; start=$$(date +%s); $(call configure,$(1)); \
  if [ -t 1 ]; then echo; quiet=; end='done in '; else quiet='-- --quiet'; end=; fi; cmake --build build/$(1) -j $(JOBS) $(3) $$quiet || exit; \
  seconds=$$(($$(date +%s) - start)); echo "$$end$$((seconds / 60)) min $$((seconds % 60)) s"

# A link of ours may dangle. Any other file stays.
link = @to="$$HOME/.local/bin/ladder"; own="$(CURDIR)/build/release/ladder"; was=$$(readlink "$$to"); \
  if [ "$$was" = "$$own" ]; then :; \
  elif [ -e "$$to" ] || { [ -n "$$was" ] && [ "$${was%/build/release/ladder}" = "$$was" ]; }; then echo "ladder is $$own; $$to stays, which is another file"; \
  elif [ -n "$$HOME" ] && mkdir -p "$${to%/*}" 2> /dev/null && ln -sfn "$$own" "$$to" 2> /dev/null; then \
    case ":$$PATH:" in *":$${to%/*}:"*) echo "ladder is linked as $$to";; *) echo "ladder is linked as $$to; put $${to%/*} on PATH";; esac; fi

needs_clang_format = command -v $(CLANG_FORMAT) > /dev/null \
  || { echo "clang-format is missing: sudo apt-get install clang-format"; exit 2; }

.NOTPARALLEL:  # the set-up comes first, the compilers get their jobs below
.PHONY: build link setup setup-tests data run micro test test-all newest asan fuzz bundle wheel wheel-test gpu-check workflows format format-check tidy clean help

build: setup  ## the program, build/release/ladder and ladder-gpt2 (the default)
	$(call compile,release,the program,--target ladder ladder_gpt2)
	$(link)

link:  ## ~/.local/bin/ladder, where no other file is; `make build` does it
	$(link)

setup:  ## Debian's libraries and the private environment with LibTorch
	@$(PYTHON) setup/toolchain.py

setup-tests:  ## the same, and the packages that only the tests import
	@$(PYTHON) setup/toolchain.py --tests

data: setup  ## GPT-2's vocabulary and the default text
	@$(PYTHON) setup/data.py

run: data build  ## build, then `ladder ablate $(ARGS)`
	build/release/ladder ablate $(ARGS)

micro: setup  ## the operations one by one, into build/release/micro.json; ARGS="--out FILE" for another
	$(call compile,release,the micro benchmarks,--target ladder_micro)
	build/release/micro --benchmark_min_time=0.05 --out build/release/micro.json $(ARGS)

run_tests = PYTHONPATH="$(TEST_PACKAGES)" TEST_PACKAGES_NEEDED=1 ctest --preset release -j $(JOBS) --output-on-failure --no-tests=error

test: setup-tests data  ## build everything and run the tests
	$(call compile,release,the program and its tests)
	$(run_tests) --label-exclude thorough

test-all: setup-tests data  ## the same with the slow tests
	$(call compile,release,the program and its tests)
	TEST_THOROUGH=1 $(run_tests)

newest: setup-tests data  ## the build and the C++ tests against PyPI's newest PyTorch, in build/newest
	@JOBS=$(JOBS) .ci/newest

asan: setup-tests data  ## the file readers' tests under AddressSanitizer
	$(call compile,asan,the readers with sanitizers,--target reader_tests fuzz_tests)
	PYTHONPATH="$(TEST_PACKAGES)" ctest --preset asan --output-on-failure --no-tests=error

fuzz: setup-tests  ## the file readers under libFuzzer, FUZZ_SECONDS (60) each; needs clang
	@command -v clang++ > /dev/null || { echo "clang++ is missing: sudo apt-get install clang"; exit 2; }
	@echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' | \
	  clang++ -x c++ -fsanitize=fuzzer,address -o /dev/null - 2> /dev/null \
	  || { echo "libFuzzer is missing: sudo apt-get install libclang-rt-$$(clang++ -dumpversion | cut -d. -f1)-dev"; exit 2; }
	$(call compile,fuzz,the fuzzers,--target fuzzers)
	tests/fuzz/run build/fuzz $(or $(FUZZ_SECONDS),60)

bundle: setup data  ## the folder bundle/, which runs wherever PyTorch 2.11 is
	$(call compile,release,the program with its device tests and micro benchmarks,--target ladder ladder_gpt2 device_tests ladder_micro)
	@$(PYTHON) packaging/bundle.py --build-dir build/release --out bundle

wheel wheel-test: ENV := $(WHEEL_TOOLS)
wheel wheel-test: export PATH := $(WHEEL_TOOLS)/bin:$(PATH)
wheel wheel-test: export ZIG_GLOBAL_CACHE_DIR := $(WHEEL_TOOLS)/cache

wheel:  ## build/gpt2_ladder-*.whl, which pip installs where there is neither a compiler nor PyTorch; PROCESSOR=aarch64 for ARM
	@$(PYTHON) setup/toolchain.py --wheel
	$(call compile,wheel-$(PROCESSOR),the program for $(PROCESSOR),--target ladder)
	@$(PYTHON) packaging/wheel.py --build-dir build/wheel-$(PROCESSOR) --out build

wheel-test: wheel  ## the C++ tests of what the wheel's program is made of, by the same compiler
	$(call compile,wheel-$(PROCESSOR),its tests)
	ctest --test-dir build/wheel-$(PROCESSOR) --output-on-failure --no-tests=error

gpu-check: bundle  ## what only a GPU can tell: bundle/gpu-check $(ARGS); ARGS="prove FOLDER" first
	LADDER_PYTHON="$${LADDER_PYTHON:-$(ENV)/bin/python}" bundle/gpu-check $(ARGS)

workflows: setup-tests  ## .github and the script it calls: schema, security, shellcheck
	PYTHONPATH="$(TEST_PACKAGES)" "$(ENV)/bin/python" -m pytest -q -rs -p no:cacheprovider tests/ci/test_workflows.py

format:  ## clang-format over the sources
	@$(needs_clang_format)
	$(CLANG_FORMAT) -i $(SOURCES)

format-check:  ## check that `make format` would change nothing
	@$(needs_clang_format)
	@$(CLANG_FORMAT) --dry-run --Werror $(SOURCES)

tidy: setup  ## clang-tidy over the sources, or what changed since SINCE=COMMIT; half a minute a file
	@command -v $(CLANG_TIDY) > /dev/null || { echo "clang-tidy is missing: sudo apt-get install clang-tidy libomp-dev"; exit 2; }
	@git rev-parse -q --verify "$(or $(SINCE),HEAD)^{commit}" > /dev/null || { echo "SINCE=$(SINCE) is not a commit"; exit 2; }
	@$(call configure,tidy)
	@cmake --build build/tidy --target ladder_version
	@sources=$$($(PYTHON) setup/tidy_sources.py build/tidy $(SINCE)) && printf '%s\n' $$sources \
	  | xargs -r -n 1 -P $(JOBS) $(CLANG_TIDY) -p build/tidy --quiet $(TIDY_FLAGS) --warnings-as-errors='*'

clean:  ## remove the build folder (the cache folder stays)
	rm -rf build

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/  make \1|\2/p' Makefile | column -t -s '|'
