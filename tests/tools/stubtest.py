"""mypy's stubtest, told that nanobind's functions are functions; for `make lint`."""

import sys

from mypy import stubtest

_is_function = stubtest.is_probably_a_function
stubtest.is_probably_a_function = lambda f: (
    _is_function(f) or type(f).__name__ == "nb_func"
)
sys.exit(stubtest.main())
