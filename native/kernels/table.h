// The table of kernels of one instruction set. Included by target_*.cpp, each compiled for
// its own instructions.
// May include columns.h, dispatch.h, exponentials.h, fold_columns.h, fold_rows.h, integers.h, round_tile.h,
// rows.h, two_folds.h and units.h only. Internal linkage: see simd.h.
#pragma once

#include <type_traits>

#include "../dispatch.h"
#include "columns.h"
#include "exponentials.h"
#include "fold_columns.h"
#include "fold_rows.h"
#include "integers.h"
#include "round_tile.h"
#include "rows.h"
#include "two_folds.h"
#include "units.h"

namespace halfulp {
namespace {

template <Term term, Layout layout, Method method, Type type>
constexpr Function function_of() {
  constexpr bool rows = layout == Layout::rows;
  if constexpr (method == Method::residue) {
    return rows ? &residue_rows<term, type> : &residue_columns<term, type>;
  } else if constexpr (method == Method::units) {
    return rows ? &units_of_rows<type> : &units_of_columns<type>;
  } else if constexpr (TermOf<term>::kIsSigned) {
    using V = std::conditional_t<method == Method::narrow, Narrow, Vector>;
    if constexpr (!rows) {
      return &sum_columns_two_folds<term, type, V>;
    } else if constexpr (method == Method::narrow) {
      return &sum_rows_narrow<term, type, SumRowTwoFolds<term, type, V>>;
    } else {
      using Short = std::conditional_t<method == Method::plain, Plain<term>, Compensated<term>>;
      return &sum_rows<type, SumRowTwoFolds<term, type, V>, Short>;
    }
  } else if constexpr (method == Method::narrow) {
    return rows ? &sum_rows_narrow<term, type, SumRowNarrow<term, type>>
                : &sum_columns<type, SumColumnsNarrow<term, type>>;
  } else if constexpr (method == Method::plain) {
    static_assert(is_exact(term, type, Type::float64));
    return rows ? &sum_rows<type, SumRow<type, Plain<term>>>
                : &sum_columns<type, SumColumns<type, Plain<term>>>;
  } else if constexpr (rows) {
    return &sum_rows<type, SumRowBiased<term, type>>;
  } else {
    return &sum_columns<type, SumColumns<type, Compensated<term>>>;
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
#define ROUNDER(type) \
  {Type::type, "round_" #type, &round_tile<Type::type>, &round_points<Type::type>},
constexpr Rounder kRounders[] = {
#include "kernels.inc"
};
#undef KERNEL
#undef EXACT
#undef ROUNDER

template <Type type>
constexpr Exponentials exponentials_of(const char* name) {
  return {type, name, &greatest_element<type>, &sum_exponentials<type, PlainExponentials>,
          &sum_exponentials<type, TwofoldExponentials>};
}

constexpr Exponentials kExponentials[] = {
    exponentials_of<Type::bfloat16>("exponentials_bfloat16"),
    exponentials_of<Type::float16>("exponentials_float16"),
    exponentials_of<Type::float32>("exponentials_float32"),
    exponentials_of<Type::float64>("exponentials_float64")};

}  // namespace
}  // namespace halfulp
