// Functions of Python that reduce arrays, with a shortcut: what most calls are, plain arrays
// and plain arguments, takes less time than Python needs to read them. Includes nothing of
// halfulp; its source numpy.h and reduce_arrays.h only.
#pragma once

#include <nanobind/nanobind.h>

namespace halfulp::python {

// Before any other.
void make_shortcut_type();

// What does as `function`, which it calls with all arguments but those of most calls. `face` is
// "numpy" or "onnx", which says what the parameters mean that the function has, by their names;
// the first is the array. `row` is a name of the table, "var" or "std": None if it is the norm
// that the argument `ord` tells.
nanobind::object shortcut(nanobind::handle function, nanobind::handle face,
                          nanobind::handle row, nanobind::handle parameters);

}  // namespace halfulp::python
