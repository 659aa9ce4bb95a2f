// Kernels for any processor of the architecture. May include table.h only.
#define HALFULP_PORTABLE
#include <iterator>

#include "table.h"

namespace halfulp {

extern const Target target_portable;
const Target target_portable = {"portable",
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
