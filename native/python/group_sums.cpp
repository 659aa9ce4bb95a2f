#include "group_sums.h"

#include <algorithm>
#include <cstring>

#include "../exact_sum.h"
#include "../groups.h"
#include "../results.h"
#include "numpy.h"

namespace halfulp::python {
namespace {

constexpr npy_intp kEnclosed = sizeof(EnclosedGroup) / sizeof(std::uint64_t);

PyArrayObject* flat(nb::handle object, int number) {
  PyArrayObject* const array = as_array(object);
  if (PyArray_TYPE(array) != number || !PyArray_ISCARRAY_RO(array) ||
      PyArray_NDIM(array) != 1) {
    throw nb::value_error("not a flat array of this type");
  }
  return array;
}

// So many numbers of 64 bits each.
struct Groups {
  Groups(nb::handle object, npy_intp words) : array(flat(object, NPY_UINT64)) {
    if (PyArray_SIZE(array) % words != 0) throw nb::value_error("no groups of this type");
    size = PyArray_SIZE(array) / words;
  }
  template <class T>
  T* data() const {
    return static_cast<T*>(PyArray_DATA(array));
  }

  PyArrayObject* array;
  npy_intp size;
};

GroupedRows rows_of(nb::handle data, nb::handle codes, npy_intp groups) {
  PyArrayObject* const array = as_array(data);
  PyArrayObject* const of_rows = flat(codes, NPY_INT64);
  const std::optional<Type> type = type_of(array);
  if (!type || !PyArray_ISCARRAY_RO(array)) throw nb::type_error("no such elements");
  const auto* begin = static_cast<const std::int64_t*>(PyArray_DATA(of_rows));
  const npy_intp n = PyArray_SIZE(of_rows);
  if (PyArray_NDIM(array) == 0 || PyArray_DIM(array, 0) != n) {
    throw nb::value_error("rows and codes do not fit");
  }
  const npy_intp width = n == 0 ? 1 : PyArray_SIZE(array) / n;
  if (width == 0) return {*type, nullptr, begin, 0, 0, 0};
  return {*type,         static_cast<const std::byte*>(PyArray_DATA(array)), begin, n, width,
          groups / width};
}

}  // namespace

nb::tuple range_of_codes(nb::handle codes) {
  PyArrayObject* const array = flat(codes, NPY_INT64);
  const CodeRange range =
      range_of(static_cast<const std::int64_t*>(PyArray_DATA(array)), PyArray_SIZE(array));
  return nb::make_tuple(range.lowest, range.highest);
}

int size_of_exact_group(nb::handle term, int type_code) {
  return exact_group_size(term_of(term), format_of_code(type_code));
}

void add_groups(nb::handle term_name, nb::handle groups, nb::handle data, nb::handle codes) {
  const Term term = term_of(term_name);
  const Groups to(groups, kEnclosed);
  const GroupedRows rows = rows_of(data, codes, to.size);
  if (!format_of(rows.type).is_float) throw nb::type_error("no floats");
  bool all = true;
  run_unlocked(length_of(rows.n * rows.width), false,
               [&](Watch*) { all = add_to_groups(term, rows, to.data<EnclosedGroup>()); });
  if (!all) throw nb::value_error("no such group");
}

nb::object round_group_sums(nb::handle term, nb::handle finish, nb::handle groups,
                            nb::handle results, int type_code) {
  const Format& input = format_of_code(type_code);
  const Groups from(groups, kEnclosed);
  PyArrayObject* const to = as_array(results);
  const std::optional<Type> type = type_of(to);
  if (!type || !format_of(*type).is_float || !input.is_float || !PyArray_ISCARRAY(to) ||
      PyArray_SIZE(to) != from.size) {
    throw nb::value_error("results do not fit");
  }
  const nb::object open = new_array(NPY_BOOL, 1, &from.size);
  const Format& output = format_of(*type);
  const Results finished(term_of(term), finish_of(finish), output);
  auto* const is_open = static_cast<std::uint8_t*>(PyArray_DATA(as_array(open)));
  run_unlocked(length_of(from.size), false, [&](Watch*) {
    round_groups(finished, input, output, from.data<EnclosedGroup>(), from.size,
                 static_cast<std::byte*>(PyArray_DATA(to)), is_open);
  });
  return open;
}

void add_groups_exactly(nb::handle term_name, nb::handle sums, nb::handle data,
                        nb::handle codes, nb::handle places) {
  const Term term = term_of(term_name);
  const std::optional<Type> type = type_of(as_array(data));
  if (!type) throw nb::type_error("no such elements");
  const Groups to(sums, exact_group_size(term, format_of(*type)));
  const std::int64_t* places_of = nullptr;
  npy_intp groups = to.size;
  if (!places.is_none()) {
    PyArrayObject* const array = flat(places, NPY_INT64);
    places_of = static_cast<const std::int64_t*>(PyArray_DATA(array));
    groups = PyArray_SIZE(array);
    for (npy_intp i = 0; i < groups; ++i) {
      if (places_of[i] >= to.size) throw nb::value_error("no such place");
    }
  }
  const GroupedRows rows = rows_of(data, codes, groups);
  bool all = true;
  run_unlocked(length_of(rows.n * rows.width), false, [&](Watch*) {
    all = add_to_exact_groups(term, rows, places_of, to.data<std::uint64_t>());
  });
  if (!all) throw nb::value_error("no such group");
}

nb::object round_exact_groups(nb::handle term_name, nb::handle finish_name, nb::handle sums,
                              nb::tuple shape, int type_code, int output_code, bool checked) {
  const Format& input = format_of_code(type_code);
  const Format& output = format_of_code(output_code);
  if (input.is_float && !output.is_float) throw nb::type_error("no such pair of types");
  const Term term = term_of(term_name);
  const Finish finish = finish_of(finish_name);
  const int size = exact_group_size(term, input);
  const Groups from(sums, size);
  const nb::object results = array_of(output, shape);
  if (PyArray_SIZE(as_array(results)) != from.size) throw nb::value_error("shape does not fit");
  char* const to = PyArray_BYTES(as_array(results));
  const Results finished(term, finish, output);
  const auto terms_of = [&](const std::uint64_t* sum) {
    return static_cast<std::int64_t>(std::min(sum[0], kMostTerms));
  };
  npy_intp overflow = -1;
  std::uint64_t whole[3] = {};
  run_unlocked(length_of(from.size), false, [&](Watch* watch) {
    for_each_item(from.size, watch, [&](npy_intp i) {
      const std::uint64_t* const sum = from.data<const std::uint64_t>() + i * size;
      if (checked && !output.is_float) {
        std::copy_n(sum + 1, 3, whole);
        finished.finish_whole(sum_format(term, input), whole, 3, terms_of(sum));
        if (!finished.holds(whole)) {
          overflow = i;
          return false;
        }
      }
      const std::uint64_t bits = finished.of_exact_sum(input, sum + 1, size - 1, terms_of(sum));
      std::memcpy(to + i * output.bytes, &bits, output.bytes);
      return true;
    });
  });
  if (overflow >= 0) raise_overflow(term, finish, as_array(results), overflow, int_from(whole));
  return results;
}

}  // namespace halfulp::python
