// The table of kernels of one instruction set. Included by target_*.cpp, each compiled for
// its own instructions.
// May include columns.h, dispatch.h, fold_columns.h, fold_rows.h, integers.h, round_tile.h and
// rows.h only. Internal linkage: see simd.h.
#pragma once

#include "../dispatch.h"
#include "columns.h"
#include "fold_columns.h"
#include "fold_rows.h"
#include "integers.h"
#include "round_tile.h"
#include "rows.h"

namespace halfulp {
namespace {

template <Layout layout, Method method, Type type>
constexpr Function function_of() {
  constexpr bool rows = layout == Layout::rows;
  if constexpr (method == Method::residue) {
    return rows ? &add_rows<type> : &add_columns<type>;
  } else if constexpr (method == Method::grid) {
    return rows ? &test_rows<type> : &test_columns<type>;
  } else if constexpr (method == Method::narrow) {
    static_assert(format_of(type).bytes == 2);
    return rows ? &sum_rows_narrow<type> : &sum_columns<type, SumColumnsNarrow<type>>;
  } else if constexpr (method == Method::plain) {
    static_assert(format_of(type).precision <= 24);
    return rows ? &sum_rows<type, SumRow<type, Plain>>
                : &sum_columns<type, SumColumns<type, Plain>>;
  } else {
    return rows ? &sum_rows<type, SumRowBiased<type>>
                : &sum_columns<type, SumColumns<type, Compensated>>;
  }
}

template <Layout layout, Type type>
constexpr ExactFunction exact_function_of() {
  constexpr bool rows = layout == Layout::rows;
  if constexpr (format_of(type).is_float) {
    return rows ? &exact_rows<type> : &exact_columns<type>;
  } else {
    return rows ? &exact_integer_rows<type> : &exact_integer_columns<type>;
  }
}

#define KERNEL(layout, method, type)
#define EXACT(layout, type)
#define ROUNDER(type)

#undef KERNEL
#define KERNEL(layout, method, type)                                          \
  {Layout::layout, Method::method, Type::type, #layout "_" #method "_" #type, \
   function_of<Layout::layout, Method::method, Type::type>()},
constexpr Kernel kKernels[] = {
#include "kernels.inc"
};
#undef KERNEL
#define KERNEL(layout, method, type)

#undef EXACT
#define EXACT(layout, type)                             \
  {Layout::layout, Type::type, #layout "_exact_" #type, \
   exact_function_of<Layout::layout, Type::type>()},
constexpr ExactKernel kExactKernels[] = {
#include "kernels.inc"
};
#undef EXACT
#define EXACT(layout, type)

#undef ROUNDER
#define ROUNDER(type) {Type::type, "round_" #type, &round_many<Type::type>},
constexpr Rounder kRounders[] = {
#include "kernels.inc"
};
#undef KERNEL
#undef EXACT
#undef ROUNDER

}  // namespace
}  // namespace halfulp
