// Hands out tiles of outputs, and parts of the terms of a tile, to the workers of an executor.
// Knows no sums. May include modes.h, parallel.h, plan.h and watch.h only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "modes.h"
#include "parallel.h"
#include "plan.h"
#include "watch.h"

namespace halfulp {

// No tile is narrower without need: of columns it would not read whole cache lines.
inline constexpr std::int64_t kSmallestTile = 256;

// Outputs that are neighbours along the innermost kept loop.
struct Tile {
  Step input;  // from the first element and output of all
  std::ptrdiff_t output;
  std::int64_t outputs;
};

// Copies n results, side by side, to outputs `stride` bytes apart.
inline void store_results(std::byte* output, std::ptrdiff_t stride, const std::byte* results,
                          std::int64_t bytes, std::int64_t n) {
  if (stride == bytes) {
    std::memcpy(output, results, n * bytes);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    std::memcpy(output + i * stride, results + i * bytes, bytes);
  }
}

// A share of the terms of each output of a tile.
struct Part {
  Loops reduced;
  Step input;  // from the tile's first element
};

class Schedule {
 public:
  // Workers that input in elements of so many bytes is worth.
  static std::int64_t workers_for(const Plan& plan, std::int64_t element_bytes,
                                  const Executor& executor);

  // For so many workers and tiles of at most `widest` outputs. They share the tiles if there
  // are enough of them, else the terms of each.
  Schedule(const Plan& plan, std::int64_t workers, std::int64_t widest,
           const Executor& executor, Watch* watch);

  std::int64_t tile() const { return tile_; }        // outputs, at most
  std::int64_t workers() const { return workers_; }  // that take tiles
  std::int64_t parts() const { return parts_; }      // of a tile, each with a worker

  // Calls f(tile, worker) for all tiles, in the standard modes; throws what the first tile in
  // order threw. Workers are numbers below workers().
  template <class F>
  void for_each_tile(F f) const {
    share(tiles_, tiles_per_turn_, workers_,
          [&](std::int64_t& item, std::int64_t end, std::size_t worker) {
            for (; item < end; ++item) f(tile_at(item), worker);
          });
  }

  // Calls f(part, worker) for the parts of a tile, at once; otherwise the same.
  template <class F>
  void for_each_part(F f) const {
    share(parts_, 1, parts_, [&](std::int64_t& item, std::int64_t end, std::size_t worker) {
      for (; item < end; ++item) f(part_at(item), worker);
    });
  }

 private:
  // Does items from `item` on until it is `end`; if it throws, `item` is the one that failed.
  using Turn = std::function<void(std::int64_t& item, std::int64_t end, std::size_t worker)>;

  template <class F>
  void share(std::int64_t items, std::int64_t per_turn, std::int64_t workers, F turn) const {
    if (workers > 1) {
      return share_turns(items, per_turn, workers, std::ref(turn));  // by reference: no memory
    }
    std::int64_t item = 0;
    {
      const StandardModes modes;
      turn(item, items, 0);
    }
    if (watch_) watch_->look();
  }

  // The same by several workers, who take `per_turn` items at a time until none is left.
  void share_turns(std::int64_t items, std::int64_t per_turn, std::int64_t workers,
                   const Turn& turn) const;
  Tile tile_at(std::int64_t item) const {
    Tile tile = {plan_.input_offset, plan_.output_offset, 0};
    std::int64_t row = item / tiles_per_row_;
    for (int i = plan_.kept.size - 2; i >= 0; --i) {
      const Loop& loop = plan_.kept.loops[i];
      tile.input += row % loop.count * loop.input;
      tile.output += row % loop.count * loop.output;
      row /= loop.count;
    }
    const Loop& inner = plan_.kept.innermost();
    const std::int64_t begin = item % tiles_per_row_ * tile_;
    tile.input += begin * inner.input;
    tile.output += begin * inner.output;
    tile.outputs = std::min(tile_, inner.count - begin);
    return tile;
  }
  Part part_at(std::int64_t item) const;

  const Plan& plan_;
  const Executor& executor_;
  Watch* const watch_;
  std::int64_t tile_ = 1;
  std::int64_t tiles_per_row_ = 1;
  std::int64_t tiles_ = 0;
  std::int64_t tiles_per_turn_ = 1;
  std::int64_t workers_ = 1;
  std::int64_t parts_ = 1;
  int split_ = 0;  // the reduced loop of which parts are made
};

}  // namespace halfulp
