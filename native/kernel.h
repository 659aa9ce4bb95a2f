// The table of kernels of one instruction set. Included by target_*.cpp, each compiled for
// its own instructions.
// May include columns.h, dispatch.h, rounding_many.h and rows.h only. Internal linkage: see
// simd.h.
#pragma once

#include "columns.h"
#include "dispatch.h"
#include "rounding_many.h"
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

constexpr Kernel kKernels[] = {
#define KERNEL(layout, method, type)                                          \
  {Layout::layout, Method::method, Type::type, #layout "_" #method "_" #type, \
   function_of<Layout::layout, Method::method, Type::type>()},
#define ROUNDER(type)
#include "kernels.inc"
#undef KERNEL
#undef ROUNDER
};

constexpr Rounder kRounders[] = {
#define KERNEL(layout, method, type)
#define ROUNDER(type) {Type::type, "round_" #type, &round_many<Type::type>},
#include "kernels.inc"
#undef KERNEL
#undef ROUNDER
};

}  // namespace
}  // namespace halfulp
