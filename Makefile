# Each target first makes .venv with all that it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find native src -type f -not -name '*.pyc')
CPP := $(filter native/%,$(SOURCES))
, := ,
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run docs test test-onnxruntime-matrix test-interop test-aarch64 test-wheel \
  conformance sanitize compare fuzz every-float32 mutants coverage lint format stub bench peers models scale wheel clean

run: .venv/test
	$(BIN)/halfulp run examples/kmeans_digits_opset18.onnx --input X=examples/digits.npy

# A file at a time in each of two processes.
test: .venv/test
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The oldest onnxruntime that works with NumPy 2, and the newest, each out of a folder of
# its own; with models that skl2onnx makes.
ONNXRUNTIMES := onnxruntime==1.19.0 onnxruntime
test-onnxruntime-matrix: .venv/test
	$(PIP) scikit-learn skl2onnx
	set -e; for release in $(ONNXRUNTIMES); do \
	  rm -rf build/onnxruntime; \
	  $(PIP) --no-deps --target build/onnxruntime $$release; \
	  PYTHONPATH=build/onnxruntime $(BIN)/python -m pytest tests/onnx/test_decisions.py \
	    tests/onnx/test_onnx_run_model.py tests/commands/test_engines.py \
	    tests/onnx/test_onnxruntime.py tests/onnx/test_onnxruntime_operators.py; \
	done

# PyTorch and JAX, several hundred megabytes: not part of the default run.
TORCH ?= torch
test-interop: .venv/interop
	$(PIP) '$(TORCH)' onnxscript
	$(BIN)/python -m pytest tests/interop tests/torch
	$(BIN)/python -m pytest tests/docs/test_docs.py tests/docs/test_docstrings.py -k torch

# NEON, by Debian's g++-aarch64-linux-gnu and qemu-user-static. On one thread: emulated ones
# take minutes, and each keeps memory for good.
AARCH64 := build/aarch64
test-aarch64: .venv/test
	mkdir -p $(AARCH64)
	aarch64-linux-gnu-g++ -std=c++17 -O3 -ffp-contract=off -Wno-psabi -static -pthread \
	  $(filter-out native/python/% native/onnxruntime/% native/torch/% %/target_avx2.cpp %/target_avx512.cpp,$(filter %.cpp,$(CPP))) \
	  tests/native/run_cases.cpp -o $(AARCH64)/run_cases
	$(BIN)/python tests/native/make_cases.py $(AARCH64)/cases
	qemu-aarch64-static $(AARCH64)/run_cases $(AARCH64)/cases 1

# docs/conformance.md: what today's backends give. The first command ends with 1, as most
# are not exact.
conformance: .venv/test
	$(PIP) openvino torch
	mkdir -p build
	-$(BIN)/halfulp verify halfulp onnxruntime+halfulp onnxruntime reference openvino torch \
	  --json build/conformance.json
	$(BIN)/python benchmarks/conformance.py build/conformance.json
	$(BIN)/python benchmarks/claims.py

# dist/: the sdist, and the wheel that it gives alone, for this Python on this Linux. All
# that they hold has one date, so that the same source gives the same bytes.
wheel: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y pyproject.toml)
wheel: .venv/wheel
	rm -rf build/wheel dist
	$(BIN)/python -m build --outdir build/wheel
	PATH="$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --wheel-dir dist build/wheel/*.whl
	mv build/wheel/*.tar.gz dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m auditwheel show dist/*.whl

test-wheel: .venv/test wheel
	HALFULP_TEST_WHEEL=1 $(BIN)/python -m pytest tests/docs/test_wheel.py

# Builds run_cases in build/NAME: $(call build,NAME,OPTIONS OF CMAKE). Then everything, and
# the package with its module in build/NAME/site: $(call site,NAME).
CMAKE = PATH=$(CURDIR)/$(BIN):$$PATH cmake
CMAKE_ARGS = -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DHALFULP_OPTIMIZE=-O1 \
  -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir)
define build
	$(CMAKE) -G Ninja -S . -B build/$(1) $(CMAKE_ARGS) $(2)
	$(CMAKE) --build build/$(1) --target run_cases
endef
define site
	$(CMAKE) --build build/$(1)
	rm -rf build/$(1)/site
	mkdir build/$(1)/site
	cp -R src/halfulp build/$(1)/site
	find build/$(1)/site -name '*.so' -delete
	$(CMAKE) --install build/$(1) --prefix build/$(1)/site
endef

# The core and ONNX Runtime's library, by GCC's AddressSanitizer and
# UndefinedBehaviorSanitizer; then threads, by its ThreadSanitizer, without Python. Left
# out is what limits or fills the memory, and a fork while another thread allocates: the
# sanitizer's allocator then stays locked in the child. CPython is not free of leaks.
SANITIZED := $(addprefix tests/core/test_,arrays.py contract.py kernels.py layouts.py state.py \
  numpy_face.py adversarial.py threads.py allocations.py interrupts.py) tests/onnx/test_onnxruntime.py
sanitize: .venv/harden
	$(call build,address,-DHALFULP_SANITIZE=address$(,)undefined)
	$(call site,address)
	$(BIN)/python tests/native/make_cases.py build/address/cases
	timeout 300 build/address/run_cases build/address/cases
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 PYTHONMALLOC=malloc PYTHONPATH=$(CURDIR)/build/address/site \
	  timeout 900 $(BIN)/python -m pytest -x $(SANITIZED) \
	  -k "not 2_to_the_31 and not is_copied and not during_the_first_call"
	$(call build,thread,-DHALFULP_SANITIZE=thread)
	timeout 300 build/thread/run_cases build/address/cases

# Some 10^8 results against the oracle: hard rows of every kind through the core, and through
# NumPy's face in every layout. A quarter of an hour.
compare: .venv/harden
	$(call build,compare,-DHALFULP_OPTIMIZE=-O3)
	$(BIN)/python tests/native/make_cases.py build/compare/cases
	build/compare/run_cases build/compare/cases
	$(BIN)/python tests/fuzz/compare.py

# SECONDS in all of random cases against two oracles, and of random bytes.
SECONDS ?= 60
fuzz: .venv/fuzz
	$(BIN)/python tests/fuzz/fuzz_bytes.py $(SECONDS) $(SEED)

# The logarithm of every float32, and log-sum-exp of every one and 0. Half an hour.
every-float32: .venv/test
	$(BIN)/python tests/fuzz/every_float32.py $(STEP)

# The tests of exactness, on a core of which a bound or a rounding step is broken; MUTANTS
# picks some by number.
mutants: .venv/harden
	PATH=$(CURDIR)/$(BIN):$$PATH CMAKE_ARGS="$(CMAKE_ARGS)" \
	  $(BIN)/python tests/native/mutants.py $(MUTANTS)

# Lines that the tests reach, of Python and of C++. Killed children leave broken files, of
# which gcov's library complains in a file of its own, not on the stderr that tests read.
coverage: export GCOV_ERROR_FILE = $(CURDIR)/build/coverage/errors
coverage: .venv/harden
	$(call build,coverage,-DCMAKE_CXX_FLAGS='--coverage -fprofile-update=atomic')
	$(call site,coverage)
	rm -f .coverage*
	find build/coverage -name '*.gcda' -delete
	PYTHONPATH=$(CURDIR)/build/coverage/site $(BIN)/python -m coverage run -m pytest -k "not 2_to_the_31"
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report
	$(BIN)/gcovr --root . --filter native/ --exclude native/torch/ --merge-lines --txt - --fail-under-line 95 \
	  --gcov-ignore-parse-errors=suspicious_hits.warn_once_per_file build/coverage

lint: .venv/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	mkdir -p build
	$(STUBGEN) -o build/_core.pyi
	diff build/_core.pyi src/halfulp/_core.pyi
	$(BIN)/python tests/tools/stubtest.py halfulp._core
	$(BIN)/clang-format --dry-run --Werror $(filter %.h %.cpp %.inc,$(CPP))

format: .venv/lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(filter %.h %.cpp %.inc,$(CPP))

STUBGEN := $(BIN)/python -m nanobind.stubgen --quiet -m halfulp._core
stub: .venv/lint
	$(STUBGEN) -o src/halfulp/_core.pyi

# The documentation site, in build/docs. Warnings, broken references among them, are errors.
docs: .venv/docs
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --nitpicky --quiet --fresh-env \
	  --doctree-dir build/doctrees docs build/docs

# What the benchmark compares with, besides: several hundred megabytes.
PEERS := torch numkong xsum bitrep

# benchmarks/results, from one run of two hours on a quiet machine, and the documents.
bench: .venv/bench
	$(PIP) $(PEERS)
	$(BIN)/halfulp bench --memory --json benchmarks/results/speed.json
	$(BIN)/halfulp bench onnxruntime --json benchmarks/results/onnxruntime.json
	$(BIN)/halfulp bench accuracy --json benchmarks/results/accuracy.json
	$(BIN)/python benchmarks/claims.py

# docs/what-others-give.md, and the README's short form of it.
peers: .venv/bench
	$(PIP) $(PEERS)
	$(BIN)/python benchmarks/what_others_give.py > build/peers.json
	mv build/peers.json benchmarks/results/peers.json
	$(BIN)/python benchmarks/claims.py

# docs/models.md: what halfulp changes in the models of tests/stored/models.
models: .venv/test
	mkdir -p build
	$(BIN)/python benchmarks/real_models.py > build/models.json
	mv build/models.json benchmarks/results/models.json
	$(BIN)/python benchmarks/claims.py

# docs/scale.md: an array larger than memory, on two Dask workers. Some minutes.
scale: .venv/test
	$(BIN)/python benchmarks/larger_than_memory.py > build/scale.json
	mv build/scale.json benchmarks/results/scale.json
	$(BIN)/python benchmarks/claims.py

clean:
	rm -rf .venv .coverage* build dist

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/%: $(SOURCES) | $(BIN)/python
	@echo "Building halfulp and installing what '$*' needs into .venv ..."
	$(PIP) '.[$*]'
	@touch $@
