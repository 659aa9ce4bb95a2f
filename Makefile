# Each target first makes .venv with all that it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find native src -type f -not -name '*.pyc')
CPP := $(filter native/%,$(SOURCES))
, := ,
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test test-onnxruntime-matrix test-interop test-aarch64 sanitize fuzz mutants \
  coverage lint format stub bench peers clean

run: .venv/test
	$(BIN)/halfulp run examples/kmeans_digits_opset18.onnx --input X=examples/digits.npy

test: .venv/test
	$(BIN)/python -m pytest

# The oldest onnxruntime that works with NumPy 2, and the newest, each out of a folder of
# its own; with models that skl2onnx makes.
ONNXRUNTIMES := onnxruntime==1.19.0 onnxruntime
test-onnxruntime-matrix: .venv/test
	$(PIP) scikit-learn skl2onnx
	set -e; for release in $(ONNXRUNTIMES); do \
	  rm -rf build/onnxruntime; \
	  $(PIP) --no-deps --target build/onnxruntime $$release; \
	  PYTHONPATH=build/onnxruntime $(BIN)/python -m pytest tests/test_engines.py tests/test_onnxruntime.py; \
	done

# PyTorch and JAX, several hundred megabytes: not part of the default run.
TORCH ?= torch
test-interop: .venv/interop
	$(PIP) '$(TORCH)'
	$(BIN)/python -m pytest tests/interop

# NEON, by Debian's g++-aarch64-linux-gnu and qemu-user-static. Takes minutes.
AARCH64 := build/aarch64
test-aarch64: .venv/test
	mkdir -p $(AARCH64)
	aarch64-linux-gnu-g++ -std=c++17 -O3 -ffp-contract=off -Wno-psabi -static -pthread \
	  $(filter-out %/bindings.cpp %/library.cpp %/target_avx2.cpp %/target_avx512.cpp,$(filter %.cpp,$(CPP))) \
	  tests/native/run_cases.cpp -o $(AARCH64)/run_cases
	$(BIN)/python tests/native/make_cases.py $(AARCH64)/cases
	qemu-aarch64-static $(AARCH64)/run_cases $(AARCH64)/cases

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
# out is what limits or fills the memory. CPython is not free of leaks.
SANITIZED := $(addprefix tests/test_,arrays.py contract.py kernels.py layouts.py \
  numpy_face.py onnxruntime.py threads.py)
sanitize: .venv/harden
	$(call build,address,-DHALFULP_SANITIZE=address$(,)undefined)
	$(call site,address)
	$(BIN)/python tests/native/make_cases.py build/address/cases
	timeout 300 build/address/run_cases build/address/cases
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=$(CURDIR)/build/address/site \
	  timeout 300 $(BIN)/python -m pytest -x $(SANITIZED) -k "not 2_to_the_31 and not is_copied"
	$(call build,thread,-DHALFULP_SANITIZE=thread)
	timeout 300 build/thread/run_cases build/address/cases

# SECONDS in all of random cases against two oracles, and of random bytes.
SECONDS ?= 60
fuzz: .venv/fuzz
	$(BIN)/python tests/fuzz_bytes.py $(SECONDS) $(SEED)

# The tests of exactness, on a core of which a bound or a rounding step is broken; MUTANTS
# picks some by number.
mutants: .venv/harden
	PATH=$(CURDIR)/$(BIN):$$PATH CMAKE_ARGS="$(CMAKE_ARGS)" \
	  $(BIN)/python tests/mutants.py $(MUTANTS)

# Lines that the tests reach, of Python and of C++. Killed children leave broken files.
coverage: .venv/harden
	$(call build,coverage,-DCMAKE_CXX_FLAGS='--coverage -fprofile-update=atomic')
	$(call site,coverage)
	rm -f .coverage*
	find build/coverage -name '*.gcda' -delete
	PYTHONPATH=$(CURDIR)/build/coverage/site $(BIN)/python -m coverage run -m pytest -k "not 2_to_the_31"
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report
	$(BIN)/gcovr --root . --filter native/ --merge-lines --txt - --fail-under-line 95 build/coverage

lint: .venv/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(filter %.h %.cpp %.inc,$(CPP))

format: .venv/lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(filter %.h %.cpp %.inc,$(CPP))

stub: .venv/lint
	$(BIN)/python -m nanobind.stubgen -m halfulp._core -o src/halfulp/_core.pyi

# docs/benchmarks.md and its picture, from one run of half an hour on a quiet machine.
bench: .venv/bench
	$(BIN)/halfulp bench --memory --json build/benchmarks.json \
	  --plot docs/benchmarks.svg --markdown build/benchmarks.md
	cat build/benchmarks.md benchmarks/notes.md > docs/benchmarks.md
	$(BIN)/halfulp bench onnxruntime --json build/benchmarks-onnxruntime.json \
	  --plot docs/benchmarks-onnxruntime.svg --markdown docs/benchmarks-onnxruntime.md

# The table "What others give" of the README.
peers: .venv/peers
	$(BIN)/python benchmarks/what_others_give.py

clean:
	rm -rf .venv .coverage* build dist

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/%: $(SOURCES) | $(BIN)/python
	@echo "Building halfulp and installing what '$*' needs into .venv ..."
	$(PIP) '.[$*]'
	@touch $@
