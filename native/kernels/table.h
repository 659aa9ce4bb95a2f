// The table of kernels of one instruction set. Included by target_*.cpp, each compiled for
// its own instructions.
// May include columns.h, dispatch.h, exponentials.h, factors.h, fold_columns.h, fold_rows.h,
// integers.h, keys.h, round_tile.h, short_rows.h, two_folds.h, units.h, unrounded_columns.h and
// unrounded_rows.h only. Internal linkage: see simd.h.
#pragma once

#include <type_traits>

#include "../dispatch.h"
#include "columns.h"
#include "exponentials.h"
#include "factors.h"
#include "fold_columns.h"
#include "fold_rows.h"
#include "integers.h"
#include "keys.h"
#include "round_tile.h"
#include "short_rows.h"
#include "two_folds.h"
#include "units.h"
#include "unrounded_columns.h"
#include "unrounded_rows.h"

namespace halfulp {
namespace {

// Lanes that are exact as long as nothing is rounded, and lanes that have bounds.
template <Term term, Type type>
using UnroundedOf =
    std::conditional_t<type == Type::float64, UnroundedParts<term>, Unrounded<term>>;
template <Term term, Method method>
using BoundedOf =
    std::conditional_t<method == Method::compensated, Compensated<term>, Plain<term>>;

template <Term term, Method method, Type type>
constexpr Function short_rows_of() {
  if constexpr (TermOf<term>::kIsSigned) {
    return &sum_short_rows<type, UnroundedOf<term, type>, BoundedOf<term, method>>;
  } else if constexpr (method == Method::narrow) {
    return &sum_short_rows_narrow<term, type>;
  } else if constexpr (method == Method::plain) {
    return &sum_short_rows<type, Plain<term>, Plain<term>>;
  } else if constexpr (TermOf<term>::kDegree == 1) {
    return &sum_short_rows<type, UnroundedOf<term, type>, BoundedOf<term, method>>;
  } else {
    return &sum_short_rows_cut<term, type>;
  }
}

template <Term term, Method method, Type type>
constexpr Function long_rows_of() {
  if constexpr (TermOf<term>::kIsSigned) {
    using V = std::conditional_t<method == Method::narrow, Narrow, Vector>;
    using Sum = SumRowTwoFolds<term, type, V>;
    return &sum_rows_unrounded<term, type, Sum, &sum_long_rows<type, Sum>>;
  } else if constexpr (method == Method::narrow) {
    return &sum_long_rows<type, SumRowNarrow<term, type>>;
  } else if constexpr (method == Method::plain) {
    static_assert(is_exact(term, type, Type::float64));
    return &sum_long_rows<type, SumRow<type, Plain<term>>>;
  } else {
    return &sum_long_rows<type, SumRowBiased<term, type>>;
  }
}

template <Term term, Layout layout, Method method, Type type>
constexpr Function function_of() {
  constexpr bool rows = layout == Layout::rows;
  if constexpr (method == Method::product) {
    static_assert(term == Term::value);
    return rows ? &multiply_rows<type> : &multiply_columns<type>;
  } else if constexpr (method == Method::residue_product) {
    static_assert(term == Term::value);
    return rows ? &multiply_integer_rows<type> : &multiply_integer_columns<type>;
  } else if constexpr (method == Method::residue) {
    return rows ? &residue_rows<term, type> : &residue_columns<term, type>;
  } else if constexpr (method == Method::units) {
    return rows ? &units_of_rows<type> : &units_of_columns<type>;
  } else if constexpr (rows) {
    return &sum_all_rows<short_rows_of<term, method, type>(),
                         long_rows_of<term, method, type>()>;
  } else if constexpr (TermOf<term>::kIsSigned) {
    using V = std::conditional_t<method == Method::narrow, Narrow, Vector>;
    return &sum_few_rows<type, UnroundedOf<term, type>, &sum_columns_unrounded<term, type, V>>;
  } else if constexpr (method == Method::narrow) {
    return &sum_columns<type, SumColumnsNarrow<term, type>>;
  } else {
    using Lane = BoundedOf<term, method>;
    constexpr Function otherwise = &sum_columns<type, SumColumns<type, Lane>>;
    if constexpr (TermOf<term>::kDegree > 1) {
      return otherwise;
    } else {
      return &sum_few_rows<type, UnroundedOf<term, type>, otherwise>;
    }
  }
}

template <Term term, Layout layout, Type type>
constexpr ExactFunction exact_function_of() {
  constexpr bool rows = layout == Layout::rows;
  if constexpr (format_of(type).is_float) {
    return rows ? &exact_rows<term, type> : &exact_columns<term, type>;
  } else {
    return rows ? &exact_integer_rows<term, type> : &exact_integer_columns<term, type>;
  }
}

// The name of a kernel, from one that begins with its term: without that for squares.
constexpr const char* name_of(Term term, const char* name) {
  return term == Term::square ? name + sizeof "square" : name;
}

#define KERNEL(term, layout, method, type)
#define EXACT(term, layout, type)
#define ROUNDER(type)
#define MAX_MIN(operation, term, order)

#undef KERNEL
#define KERNEL(term, layout, method, type)                       \
  {Term::term,                                                   \
   Layout::layout,                                               \
   Method::method,                                               \
   Type::type,                                                   \
   name_of(Term::term, #term "_" #layout "_" #method "_" #type), \
   function_of<Term::term, Layout::layout, Method::method, Type::type>()},
constexpr Kernel kKernels[] = {
#include "kernels.inc"
};
#undef KERNEL
#define KERNEL(term, layout, method, type)

#undef EXACT
#define EXACT(term, layout, type)                          \
  {Term::term, Layout::layout, Type::type,                 \
   name_of(Term::term, #term "_" #layout "_exact_" #type), \
   exact_function_of<Term::term, Layout::layout, Type::type>()},
constexpr ExactKernel kExactKernels[] = {
#include "kernels.inc"
};
#undef EXACT
#define EXACT(term, layout, type)

#undef ROUNDER
#define ROUNDER(type) {Type::type, "round_" #type, &round_tile<Type::type>},
constexpr Rounder kRounders[] = {
#include "kernels.inc"
};
#undef ROUNDER
#define ROUNDER(type)

template <class M>
constexpr MaxMinKernel max_min_as(Operation operation, Term term, Order order,
                                  const char* name) {
  return {operation, term,        order,         name,      M::Keys::none(),
          &M::rows,  &M::columns, &M::join_keys, &M::clear, &M::elements};
}

#undef MAX_MIN
#define MAX_MIN(operation, term, order)                               \
  max_min_as<MaxMin<Operation::operation, Term::term, Order::order>>( \
      Operation::operation, Term::term, Order::order, #operation "_" #term "_" #order),
constexpr MaxMinKernel kMaxMinKernels[] = {
#include "kernels.inc"
};
#undef KERNEL
#undef EXACT
#undef ROUNDER
#undef MAX_MIN

template <Type type>
constexpr Exponentials exponentials_of(const char* name) {
  return {type,
          name,
          &greatest_element<type>,
          &greatest_of_columns<type>,
          {&sum_exponentials<type, PlainExponentials>,
           &sum_exponential_columns<type, PlainExponentials>},
          {&sum_exponentials<type, TwofoldExponentials>,
           &sum_exponential_columns<type, TwofoldExponentials>},
          &add_logarithms};
}

constexpr Exponentials kExponentials[] = {
    exponentials_of<Type::bfloat16>("exponentials_bfloat16"),
    exponentials_of<Type::float16>("exponentials_float16"),
    exponentials_of<Type::float32>("exponentials_float32"),
    exponentials_of<Type::float64>("exponentials_float64")};

}  // namespace
}  // namespace halfulp
