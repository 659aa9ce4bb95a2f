// NumPy's arrays as the core sees them: element types, plans, errors about places in them.
// May include calls.h, formats.h, plan.h, reduce.h and reductions.h only.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

// One table of NumPy's functions for all sources of the module; numpy.cpp fills it.
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL halfulp_numpy_functions
#ifndef HALFULP_FILLS_NUMPY_FUNCTIONS
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "../formats.h"
#include "../plan.h"
#include "../reduce.h"
#include "../reductions.h"
#include "calls.h"

namespace halfulp::python {

// Before anything else here is called.
void import_numpy();

PyArrayObject* as_array(nb::handle object);
// Of NumPy's number of a type.
nb::object new_array(int number, int rank, const npy_intp* shape);
// Of a type.
nb::object array_of(const Format& format, const nb::tuple& shape);
// A scalar of NumPy's, with a copy of the element.
nb::object new_scalar(int number, const void* element);

// The element type that a dtype is; nothing if it is none of the eight.
std::optional<Type> type_of(PyArray_Descr* dtype);
inline std::optional<Type> type_of(PyArrayObject* array) {
  return type_of(PyArray_DESCR(array));
}
// That of small integers; null if it has another.
const SmallFormat* small_of(PyArrayObject* array);
int numpy_number(Type type);
const Format& format_of_code(int type_code);

// The row of the table that has this name.
const Reduction& reduction_of(nb::handle name);
// The term and the finish of these names.
Term term_of(nb::handle name);
Finish finish_of(nb::handle name);

// Marks the axes to reduce; None means all.
void mark_axes(nb::handle axes, int rank, bool (&is_reduced)[kMaxRank]);
// With a mask of the same shape, if it is not null.
Plan plan_of(PyArrayObject* array, const bool* is_reduced, int output_bytes,
             PyArrayObject* mask = nullptr);
Length length_of(PyArrayObject* data, const Plan& plan);

// Of digits in two's complement, which sums of unsigned terms never fill.
nb::object int_from(const std::uint64_t (&digits)[3]);
// Raises for output `place` of a C-contiguous array.
[[noreturn]] void raise_overflow(Term term, Finish finish, PyArrayObject* result,
                                 npy_intp place, nb::handle value);
// The same of a result that is `what`.
[[noreturn]] void raise_overflow(const std::string& what, PyArrayObject* result, npy_intp place,
                                 nb::handle value);

}  // namespace halfulp::python
