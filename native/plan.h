// From shape, strides and axes to loops. May include dispatch.h only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch.h"

namespace halfulp {

inline constexpr int kMaxRank = 64;  // NumPy's

// Bytes from one element to another, and between what a mask says of them: 0 without one.
struct Step {
  std::ptrdiff_t element;
  std::ptrdiff_t mask;

  Step& operator+=(Step more) {
    element += more.element;
    mask += more.mask;
    return *this;
  }
  Step& operator-=(Step less) { return *this += -1 * less; }
  friend Step operator*(std::int64_t times, Step step) {
    return {times * step.element, times * step.mask};
  }
  friend bool operator==(Step a, Step b) { return a.element == b.element && a.mask == b.mask; }
};

// An element, and what a mask says of it: null without one.
struct Place {
  const std::byte* element;
  const std::byte* mask;

  Place operator+(Step step) const { return {element + step.element, mask + step.mask}; }
};

// Which elements count. A mask is a byte for each, 0 for false and any other for true.
enum class Counted { all, where_true, where_false };

// Strides are in bytes and, for elements, never negative: such a loop runs from its other
// end, which is allowed because the sum does not depend on the order.
struct Loop {
  std::int64_t count;
  Step input;
  std::ptrdiff_t output;  // 0 in a reduced loop
};

// Loops of one kind, the greatest input stride first. There is always an innermost one,
// if only of count 1.
struct Loops {
  int size = 0;
  Loop loops[kMaxRank];

  const Loop& innermost() const { return loops[size - 1]; }
  std::int64_t count() const {
    std::int64_t turns = 1;
    for (int i = 0; i < size; ++i) turns *= loops[i].count;
    return turns;
  }
};

struct Plan {
  Loops kept;
  Loops reduced;
  Step input_offset = {0, 0};        // of the first element visited
  std::ptrdiff_t output_offset = 0;  // of its output
  Layout layout = Layout::rows;
};

// Calls f(input offset, output offset) for every turn of all loops but the innermost.
template <class F>
void for_each_outer(const Loops& loops, F f) {
  if (loops.size == 1) return f(Step{0, 0}, 0);  // as of most calls
  std::int64_t index[kMaxRank] = {};
  Step input = {0, 0};
  std::ptrdiff_t output = 0;
  for (;;) {
    f(input, output);
    int i = loops.size - 2;
    for (; i >= 0; --i) {
      const Loop& loop = loops.loops[i];
      input += loop.input;
      output += loop.output;
      if (++index[i] < loop.count) break;
      input -= loop.count * loop.input;
      output -= loop.count * loop.output;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

// Describes the reduction of an array of `rank` axes over those marked in `is_reduced`, with
// the strides of a mask of the same shape, if there is one.
// The output is C-contiguous in the kept axes' order. Axes of one element vanish and
// adjacent ones of a kind merge, so that arrays which differ only in notation share a plan.
Plan make_plan(int rank, const std::int64_t* shape, const std::ptrdiff_t* strides,
               const bool* is_reduced, int input_bytes, int output_bytes,
               const std::ptrdiff_t* mask_strides = nullptr);

}  // namespace halfulp
