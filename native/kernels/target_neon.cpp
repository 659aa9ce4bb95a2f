// Kernels for AArch64. May include table.h only.

#include <iterator>

#include "table.h"

namespace halfulp {

extern const Target target_neon;
const Target target_neon = {"neon",
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
