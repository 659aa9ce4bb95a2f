#include "reduce_arrays.h"

#include <string>

#include "../parallel.h"
#include "../products.h"

namespace halfulp::python {

nb::object run(const Reducing& asked) {
  const Plan plan = plan_of(asked.data, asked.is_reduced, asked.output_bytes(), asked.mask);
  const Length length = length_of(asked.data, plan);
  const bool is_heard = length == Length::long_ && handles_signals();
  const bool in_place = asked.out && !is_heard;
  const bool is_number = asked.scalar && asked.rank == 0 && !in_place && !asked.checked;
  std::uint64_t number;
  nb::object result;
  if (in_place) {
    result = nb::borrow(reinterpret_cast<PyObject*>(asked.out));
  } else if (!is_number) {
    result = new_array(asked.output_number(), asked.rank, asked.shape);
  }
  Request request = asked.request;
  request.input = reinterpret_cast<const std::byte*>(PyArray_BYTES(asked.data));
  request.output = reinterpret_cast<std::byte*>(is_number ? reinterpret_cast<char*>(&number)
                                                          : PyArray_BYTES(as_array(result)));
  request.input_type = asked.input_type;
  request.output_type = asked.output->type;
  request.small = asked.small;
  request.byte_swapped = !PyArray_ISNOTSWAPPED(asked.data);
  request.checked = asked.checked;
  if (asked.mask) {
    request.mask = reinterpret_cast<const std::byte*>(PyArray_BYTES(asked.mask));
    request.counted = asked.counted ? Counted::where_true : Counted::where_false;
  }
  std::optional<SumOverflow> overflow;
  std::optional<ProductOverflow> product_overflow;
  run_unlocked(length, is_heard, [&](Watch* watch) {
    request.watch = watch;
    try {
      reduce(plan, request, own_threads());
    } catch (const SumOverflow& caught) {
      overflow = caught;
    } catch (const ProductOverflow& caught) {
      product_overflow = caught;
    }
  });
  if (overflow) {
    raise_overflow(request.term, request.finish, as_array(result),
                   overflow->output / asked.output_bytes(), int_from(overflow->sum));
  }
  if (product_overflow) {
    const std::string power = "2**" + std::to_string(product_overflow->power);
    const std::string size =
        product_overflow->negative ? "-" + power + " or less" : power + " or more";
    raise_overflow("the exact product", as_array(result),
                   product_overflow->output / asked.output_bytes(), nb::str(size.c_str()));
  }
  if (is_number) return new_scalar(asked.output_number(), &number);
  if (asked.rank > 0 || !asked.scalar) return result;
  return new_scalar(asked.output_number(), PyArray_DATA(as_array(result)));
}

namespace {

// The rest of what bindings are given; `type_code` 0 asks for the default type.
nb::object reduce_as(Reducing asked, nb::handle data, nb::handle axes, bool keepdims,
                     int type_code, bool checked, nb::handle out, nb::handle mask, bool counted,
                     bool scalar) {
  asked.data = as_array(data);
  std::optional<Type> output_type;
  if (type_code != 0) output_type = static_cast<Type>(type_code);
  if (const char* wrong = asked.set_types(output_type)) throw nb::type_error(wrong);
  mark_axes(axes, PyArray_NDIM(asked.data), asked.is_reduced);
  asked.set_shape(keepdims);
  asked.checked = checked && !asked.output->is_float;
  if (!out.is_none()) {
    asked.out = as_array(out);
    if (!asked.out_fits()) throw nb::value_error("out does not fit");
  }
  if (!mask.is_none()) {
    asked.mask = as_array(mask);
    const int rank = PyArray_NDIM(asked.data);
    if (PyArray_TYPE(asked.mask) != NPY_BOOL || PyArray_NDIM(asked.mask) != rank ||
        !PyArray_CompareLists(PyArray_DIMS(asked.mask), PyArray_DIMS(asked.data), rank)) {
      throw nb::value_error("mask does not fit");
    }
  }
  asked.counted = counted;
  asked.scalar = scalar;
  return run(asked);
}

}  // namespace

nb::object reduce_array(nb::handle reduction, nb::handle data, nb::handle axes, bool keepdims,
                        int type_code, bool checked, nb::handle out, nb::handle mask,
                        bool counted, bool scalar) {
  Reducing asked;
  asked.set_row(reduction_of(reduction));
  return reduce_as(asked, data, axes, keepdims, type_code, checked, out, mask, counted, scalar);
}

nb::object spread_of(const char* name, std::int64_t ddof, nb::handle data, nb::handle axes,
                     bool keepdims, int type_code, nb::handle out, nb::handle mask,
                     bool counted, bool scalar) {
  if (ddof < -kMostDdof || ddof > kMostDdof) throw nb::value_error("no such ddof");
  Reducing asked;
  if (!asked.set_spread(name)) throw nb::value_error("neither var nor std");
  asked.request.ddof = ddof;
  return reduce_as(asked, data, axes, keepdims, type_code, false, out, mask, counted, scalar);
}

}  // namespace halfulp::python
