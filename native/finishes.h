// Which finishes there are, for kernels too; what they do is in finish.h. Includes nothing of
// halfulp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp {

enum class Finish { none, mean, root, log };

inline constexpr Finish kFinishes[] = {Finish::none, Finish::mean, Finish::root, Finish::log};

// The number of terms of each sum: the same of all, or of each its own.
struct Terms {
  std::int64_t all;
  const std::uint64_t* own;  // null if they are the same

  std::int64_t operator[](std::int64_t i) const {
    return own ? static_cast<std::int64_t>(own[i]) : all;
  }
  Terms operator+(std::ptrdiff_t i) const { return {all, own ? own + i : nullptr}; }
};

}  // namespace halfulp
