// Reductions of NumPy's arrays.
// May include numpy.h only; its source parallel.h and products.h too.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "numpy.h"

namespace halfulp::python {

// A reduction of an array: what it was asked for, checked.
struct Reducing {
  Request request = {};            // what results are; run() sets the rest of it
  const Reduction* row = nullptr;  // the same, if it is one of the table
  PyArrayObject* data;
  const SmallFormat* small;
  Type input_type;
  const Format* output;
  const SmallFormat* small_output;  // instead, if results are elements of a small type
  bool is_reduced[kMaxRank] = {};
  int rank = 0;  // of the result, as is its shape
  npy_intp shape[kMaxRank];
  bool checked = false;
  PyArrayObject* out = nullptr;  // if there is one
  PyArrayObject* mask = nullptr;
  bool counted = true;
  bool scalar = true;  // instead of an array of rank 0

  void set_row(const Reduction& reduction) {
    row = &reduction;
    request.operation = reduction.operation;
    request.term = reduction.term;
    request.finish = reduction.finish;
  }

  // The same of "var" or "std"; false if it is none of these.
  bool set_spread(const char* name) {
    const bool is_deviation = std::strcmp(name, "std") == 0;
    if (!is_deviation && std::strcmp(name, "var") != 0) return false;
    request.operation = Operation::sum;
    request.term = Term::square;
    request.finish = Finish::mean;
    request.spread = is_deviation ? Spread::deviation : Spread::variance;
    return true;
  }

  // Sets the types, the result's by default. Returns what is wrong with them, null if nothing.
  const char* set_types(std::optional<Type> output_type) {
    small = small_of(data);
    const std::optional<Type> type = small ? small->read_as : type_of(data);
    if (!type) return "no such element type";
    input_type = *type;
    const Format& input = format_of(input_type);
    const Type by_default = row              ? default_result(*row, input)
                            : input.is_float ? input.type
                                             : Type::float64;
    const bool same = row && gives_elements(row->operation, row->term);
    small_output = same ? small : nullptr;
    output = find_format(same ? input_type : output_type.value_or(by_default));
    const bool is_real = input.is_float || request.spread != Spread::none;
    const bool is_pair = output && (output->is_float || !is_real);
    return is_pair ? nullptr : "no such pair of element types";
  }

  int output_bytes() const { return small_output ? small_output->bytes : output->bytes; }
  int output_number() const {
    return small_output ? PyArray_TYPE(data) : numpy_number(output->type);
  }

  void set_shape(bool keepdims) {
    for (int i = 0; i < PyArray_NDIM(data); ++i) {
      if (!is_reduced[i]) {
        shape[rank++] = PyArray_DIM(data, i);
      } else if (keepdims) {
        shape[rank++] = 1;
      }
    }
  }

  bool out_fits() const {
    const bool has_type =
        small_output ? small_of(out) == small_output : type_of(out) == output->type;
    return has_type && PyArray_ISCARRAY(out) && PyArray_NDIM(out) == rank &&
           PyArray_CompareLists(PyArray_DIMS(out), shape, rank);
  }
};

// The result: in `out`, or in a new array if the call may be interrupted.
nb::object run(const Reducing& asked);

// Arguments were checked by the Python faces; what would corrupt memory is checked again.
nb::object reduce_array(nb::handle reduction, nb::handle data, nb::handle axes, bool keepdims,
                        int type_code, bool checked, nb::handle out, nb::handle mask,
                        bool counted, bool scalar);
nb::object spread_of(const char* name, std::int64_t ddof, nb::handle data, nb::handle axes,
                     bool keepdims, int type_code, nb::handle out, nb::handle mask,
                     bool counted, bool scalar);

}  // namespace halfulp::python
