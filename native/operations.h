// Operations: what joins the terms of a reduction. Includes nothing of halfulp.
#pragma once

namespace halfulp {

enum class Operation { sum, max, min, product, exponentials };

inline constexpr const char* kOperationNames[] = {"sum", "max", "min", "product",
                                                  "exponentials"};

constexpr const char* name_of(Operation operation) {
  return kOperationNames[static_cast<int>(operation)];
}

}  // namespace halfulp
