#include "sums.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "../exact_sum.h"
#include "../moments.h"
#include "../parallel.h"
#include "../reduce.h"
#include "../results.h"
#include "numpy.h"

namespace halfulp::python {
namespace {

// Exact sums as an array of uint64: how many terms each sum is of, and then all sums.
struct Sums {
  Sums(nb::handle object, Term term, const Format& format)
      : array(as_array(object)), digits(sum_format(term, format).stored_digits) {
    const bool is_flat = PyArray_TYPE(array) == NPY_UINT64 && PyArray_ISCARRAY(array) &&
                         PyArray_NDIM(array) == 1 && PyArray_SIZE(array) > 0;
    if (!is_flat || (PyArray_SIZE(array) - 1) % digits != 0) {
      throw nb::value_error("no sums of this type");
    }
    size = (PyArray_SIZE(array) - 1) / digits;
  }

  std::uint64_t& count() const { return *static_cast<std::uint64_t*>(PyArray_DATA(array)); }
  std::uint64_t* sum(npy_intp i) const { return &count() + 1 + i * digits; }

  PyArrayObject* array;
  int digits;
  npy_intp size;
};

// While alive, nobody else changes an array of sums: no other thread, which would have the lock
// meanwhile, and no handler of a signal.
class Changing {
 public:
  explicit Changing(PyArrayObject* sums) : sums_(sums), next_(first_) {
    for (const Changing* other = first_; other; other = other->next_) {
      if (other->sums_ == sums) throw nb::buffer_error("the sums are being changed");
    }
    first_ = this;
  }
  ~Changing() {
    Changing** place = &first_;
    while (*place != this) place = &(*place)->next_;
    *place = next_;
  }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  static Changing* first_;  // guarded by the interpreter's lock

  PyArrayObject* sums_;
  Changing* next_;
};

Changing* Changing::first_ = nullptr;

// Calls add(sums, from, watch) to add to the sums in `object`: where they are, if nothing can
// interrupt it, else in a copy of `from`, which add makes. They count `count` terms more then.
template <class F>
void add_to_sums(nb::handle object, Term term, const Format& format, std::uint64_t count,
                 Length length, F add) {
  const Sums from(object, term, format);
  const Changing changing(from.array);
  if (count > kMostTerms - std::min(kMostTerms, from.count())) {
    PyErr_SetString(PyExc_OverflowError, "too many terms");
    throw nb::python_error();
  }
  const bool is_heard = length == Length::long_ && handles_signals();
  const nb::object changed =
      is_heard ? new_array(NPY_UINT64, 1, PyArray_DIMS(from.array)) : nb::borrow(object);
  const Sums sums(changed, term, format);
  run_unlocked(length, is_heard, [&](Watch* watch) { add(sums, from, watch); });
  sums.count() = from.count() + count;
  if (is_heard) {
    std::memcpy(PyArray_DATA(from.array), PyArray_DATA(sums.array), PyArray_NBYTES(sums.array));
  }
}

}  // namespace

nb::tuple format_of_sums(nb::handle term, int type_code) {
  const Format& format = format_of_code(type_code);
  const SumFormat sum = sum_format(term_of(term), format);
  const int flags = format.is_float ? flag_bits(sum.is_signed) : sum.is_signed ? 0 : 1;
  return nb::make_tuple(sum.stored_digits, flags, sum.exponent);
}

void update_sums(nb::handle term_name, nb::handle sums, nb::handle data, nb::handle axes) {
  PyArrayObject* array = as_array(data);
  const std::optional<Type> type = type_of(array);
  if (!type) throw nb::type_error("no such element type");
  const Format& format = format_of(*type);
  bool is_reduced[kMaxRank] = {};
  mark_axes(axes, PyArray_NDIM(array), is_reduced);
  const Term term = term_of(term_name);
  const Plan plan = plan_of(array, is_reduced, 8 * sum_format(term, format).stored_digits);
  if (plan.kept.count() != Sums(sums, term, format).size) {
    throw nb::value_error("sums do not fit");
  }
  Request request;
  request.operation = Operation::sum;
  request.term = term;
  request.input = reinterpret_cast<const std::byte*>(PyArray_BYTES(array));
  request.input_type = request.output_type = *type;
  request.byte_swapped = !PyArray_ISNOTSWAPPED(array);
  request.checked = false;
  request.adds = true;
  add_to_sums(sums, term, format, plan.reduced.count(), length_of(array, plan),
              [&](const Sums& to, const Sums& from, Watch* watch) {
                request.output = reinterpret_cast<std::byte*>(to.sum(0));
                if (to.array != from.array) {
                  request.sums_before = reinterpret_cast<const std::byte*>(from.sum(0));
                }
                request.watch = watch;
                reduce(plan, request, own_threads());
              });
}

void merge_sums(nb::handle term_name, nb::handle sums, nb::handle more, int type_code) {
  const Format& format = format_of_code(type_code);
  const Term term = term_of(term_name);
  const Sums source(more, term, format);
  if (Sums(sums, term, format).size != source.size) throw nb::value_error("sums do not fit");
  add_to_sums(sums, term, format, source.count(), length_of(source.size),
              [&](const Sums& to, const Sums& from, Watch* watch) {
                for_each_item(from.size, watch, [&](npy_intp i) {
                  if (to.array != from.array) std::copy_n(from.sum(i), from.digits, to.sum(i));
                  add_to_stored(term, format, to.sum(i), source.sum(i));
                  return true;
                });
              });
}

nb::object round_sums(nb::handle term_name, nb::handle finish_name, nb::handle sums,
                      nb::tuple shape, int type_code, int output_code, bool checked) {
  const Format& format = format_of_code(type_code);
  const Format& output = format_of_code(output_code);
  const Term term = term_of(term_name);
  const Finish finish = finish_of(finish_name);
  if (finish == Finish::root && facts_of(term).is_signed) {
    throw nb::value_error("sums below 0 have no root");
  }
  const Sums source(sums, term, format);
  if (format.is_float && !output.is_float) throw nb::type_error("no such pair of types");
  const nb::object result = array_of(output, shape);
  if (PyArray_SIZE(as_array(result)) != source.size)
    throw nb::value_error("shape does not fit");
  char* const results = PyArray_BYTES(as_array(result));
  const SumFormat sum = sum_format(term, format);
  // Of integers, three digits.
  struct Whole {
    std::uint64_t digits[3];
  };
  // Without signs a sum from 2^127 on is known modulo 2^127 only.
  const auto is_known = [&](const std::uint64_t* stored) {
    return format.is_float || sum.is_signed || (stored[1] & kTopBit) == 0;
  };
  npy_intp overflow = -1;
  const auto terms = static_cast<std::int64_t>(std::min(source.count(), kMostTerms));
  const Results finished(term, finish, output);
  const auto finished_whole = [&](const std::uint64_t* stored) {
    const std::uint64_t third = is_negative(sum, stored, 2) ? ~std::uint64_t{0} : 0;
    Whole whole = {{stored[0], stored[1], third}};
    finished.finish_whole(sum, whole.digits, 3, terms);
    return whole;
  };
  const bool needs_all = checked || output.is_float || finish != Finish::none;
  const Length length = length_of(source.size);
  run_unlocked(length, length == Length::long_ && handles_signals(), [&](Watch* watch) {
    for_each_item(source.size, watch, [&](npy_intp i) {
      const std::uint64_t* stored = source.sum(i);
      bool fits = is_known(stored) || !needs_all;
      if (fits && checked && !output.is_float) {
        fits = finished.holds(finished_whole(stored).digits);
      }
      if (!fits) {
        overflow = i;
        return false;
      }
      const std::uint64_t rounded = finished.of_exact_sum(format, stored, source.digits, terms);
      std::memcpy(results + i * output.bytes, &rounded, output.bytes);
      return true;
    });
  });
  if (overflow >= 0) {
    const std::uint64_t* stored = source.sum(overflow);
    if (!is_known(stored)) {
      raise_overflow(term, Finish::none, as_array(result), overflow, nb::str("2**127 or more"));
    }
    const Whole whole = finished_whole(stored);
    raise_overflow(term, finish, as_array(result), overflow, int_from(whole.digits));
  }
  return result;
}

nb::object round_spreads(bool is_deviation, std::int64_t ddof, nb::handle values,
                         nb::handle squares, nb::tuple shape, int type_code, int output_code) {
  const Format& format = format_of_code(type_code);
  const Format& output = format_of_code(output_code);
  if (!output.is_float) throw nb::type_error("no such pair of types");
  if (std::abs(ddof) > kMostDdof) throw nb::value_error("no such ddof");
  const Sums first(values, Term::value, format);
  const Sums second(squares, Term::square, format);
  const nb::object result = array_of(output, shape);
  const npy_intp size = PyArray_SIZE(as_array(result));
  if (size != first.size || size != second.size || first.count() != second.count()) {
    throw nb::value_error("sums do not fit");
  }
  const auto terms = static_cast<std::int64_t>(std::min(first.count(), kMostTerms));
  char* const results = PyArray_BYTES(as_array(result));
  npy_intp overflow = -1;
  const Length length = length_of(size);
  run_unlocked(length, length == Length::long_ && handles_signals(), [&](Watch* watch) {
    for_each_item(size, watch, [&](npy_intp i) {
      // Of integers three digits, where two are stored.
      std::uint64_t of_values[kMostDigits] = {};
      std::uint64_t of_squares[kMostDigits] = {};
      std::copy_n(first.sum(i), first.digits, of_values);
      std::copy_n(second.sum(i), second.digits, of_squares);
      if (!format.is_float) {
        if (of_squares[1] & kTopBit) {
          overflow = i;
          return false;
        }
        const SumFormat sum = sum_format(Term::value, format);
        if (is_negative(sum, first.sum(i), first.digits)) of_values[2] = ~std::uint64_t{0};
      }
      const Spread spread = is_deviation ? Spread::deviation : Spread::variance;
      const std::uint64_t bits =
          spread_of_exact_sums(format, output, spread, ddof, of_values, of_squares, terms);
      std::memcpy(results + i * output.bytes, &bits, output.bytes);
      return true;
    });
  });
  if (overflow >= 0) {
    raise_overflow(Term::square, Finish::none, as_array(result), overflow,
                   nb::str("2**127 or more"));
  }
  return result;
}

bool are_sums(nb::handle term_name, nb::handle sums, int type_code) {
  const Format& format = format_of_code(type_code);
  const Term term = term_of(term_name);
  const Sums source(sums, term, format);
  bool all = source.count() <= kMostTerms;
  const Length length = length_of(source.size);
  run_unlocked(length, length == Length::long_ && handles_signals(), [&](Watch* watch) {
    for_each_item(source.size, watch, [&](npy_intp i) {
      return all = all && is_stored_sum(term, format, source.sum(i), source.count());
    });
  });
  return all;
}

}  // namespace halfulp::python
