// Kernels for x86-64 with AVX2, FMA and F16C. May include table.h only.

#include <iterator>

#include "table.h"

namespace halfulp {

extern const Target target_avx2;
const Target target_avx2 = {"avx2",
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
