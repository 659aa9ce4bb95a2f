// Kernels for x86-64 with AVX-512 F, BW, DQ and VL. May include table.h only.

#include <iterator>

#include "table.h"

namespace halfulp {

extern const Target target_avx512;
const Target target_avx512 = {"avx512",
                              kKernels,
                              std::size(kKernels),
                              kExactKernels,
                              std::size(kExactKernels),
                              kRounders,
                              std::size(kRounders),
                              kExponentials,
                              std::size(kExponentials),
                              kMaxMinKernels,
                              std::size(kMaxMinKernels)};

}  // namespace halfulp
