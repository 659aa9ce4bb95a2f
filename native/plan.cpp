#include "plan.h"

#include <algorithm>
#include <tuple>

namespace halfulp {
namespace {

// Sorts by falling input stride and merges each loop that continues the one inside it.
void normalize(Loops& loops) {
  Loop* const begin = loops.loops;
  std::sort(begin, begin + loops.size, [](const Loop& a, const Loop& b) {
    return std::tie(a.input.element, a.input.mask) > std::tie(b.input.element, b.input.mask);
  });
  int merged = 0;
  for (int i = 0; i < loops.size; ++i) {
    const Loop inner = begin[i];
    if (merged > 0) {
      Loop& outer = begin[merged - 1];
      if (outer.input == inner.count * inner.input &&
          outer.output == inner.count * inner.output) {
        outer = {outer.count * inner.count, inner.input, inner.output};
        continue;
      }
    }
    begin[merged++] = inner;
  }
  loops.size = merged;
  if (merged == 0) begin[loops.size++] = {1, {0, 0}, 0};
}

}  // namespace

Plan make_plan(int rank, const std::int64_t* shape, const std::ptrdiff_t* strides,
               const bool* is_reduced, int input_bytes, int output_bytes,
               const std::ptrdiff_t* mask_strides) {
  Plan plan;
  std::ptrdiff_t output_stride = output_bytes;
  for (int axis = rank - 1; axis >= 0; --axis) {
    Loop loop = {shape[axis], {strides[axis], mask_strides ? mask_strides[axis] : 0}, 0};
    if (!is_reduced[axis]) {
      loop.output = output_stride;
      output_stride *= loop.count;
    }
    if (loop.count == 1) continue;
    if (loop.input.element < 0 && loop.count > 0) {
      plan.input_offset += (loop.count - 1) * loop.input;
      plan.output_offset += (loop.count - 1) * loop.output;
      loop.input = -1 * loop.input;
      loop.output = -loop.output;
    }
    Loops& loops = is_reduced[axis] ? plan.reduced : plan.kept;
    loops.loops[loops.size++] = loop;
  }
  normalize(plan.kept);
  normalize(plan.reduced);

  // Whichever kind of loop walks memory in smaller steps goes inside. A row of one term is
  // a column of one.
  const Loop& kept = plan.kept.innermost();
  const Loop& reduced = plan.reduced.innermost();
  const std::ptrdiff_t along = reduced.input.element;
  const bool rows_touch = along == input_bytes;
  if (reduced.count == 1 || (!rows_touch && kept.count > 1 && kept.input.element < along)) {
    plan.layout = Layout::columns;
  }
  return plan;
}

}  // namespace halfulp
