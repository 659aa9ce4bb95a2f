// Memory of one worker: all that a tile needs, had before anything is written.
// May include dispatch.h, read.h and watch.h only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "dispatch.h"
#include "read.h"
#include "watch.h"

namespace halfulp {

// Memory for tiles of at most n outputs.
class Workspace {
 public:
  // Where a small workspace lies instead of in memory of its own.
  struct Room {
    alignas(64) std::byte bytes[8 * 1024];
  };

  struct Needs {
    Layout layout;
    bool adds;                // terms are added to exact sums, and nothing is rounded
    bool packed;              // elements are copied before they are read
    bool reshaped;            // a matrix is reshaped to one of kReshapedColumns
    std::int64_t part_bytes;  // for exact sums, of a part or of a few outputs
    // So many columns are summed exactly at once.
    std::int64_t exact_columns = 0;
    bool counts = false;   // how many elements count is asked of each output
    bool squares = false;  // there are sums of squares beside those of values
  };

  Workspace(std::int64_t outputs, const Needs& needs, Watch* watch, Room* room = nullptr)
      : pace(watch) {
    const std::int64_t n = outputs + static_cast<std::int64_t>(kPadding);
    const bool columns = needs.layout == Layout::columns;
    const std::int64_t exact =
        needs.adds ? n : needs.exact_columns + static_cast<std::int64_t>(kPadding);
    const auto room_for = [](std::int64_t outputs, std::size_t more, std::size_t bytes) {
      return (outputs + static_cast<std::int64_t>(more)) * static_cast<std::int64_t>(bytes);
    };
    const bool both = !needs.adds && needs.exact_columns > 0;
    std::int64_t lanes = needs.adds ? 0 : room_for(n, kMoreLanes, kLaneBytes);
    if (needs.adds || both) lanes = std::max(lanes, room_for(exact, 64, kExactLaneBytes));
    if (!columns) lanes = 0;
    const std::int64_t pack = needs.packed ? kPackBytes : 0;
    const std::int64_t size =
        pack + lanes + needs.part_bytes + n * (needs.adds ? kExactBytes : kBytes) +
        (needs.counts ? n * kCountBytes : 0) + (needs.squares ? n * kSquareBytes : 0) +
        (both ? exact * kExactBytes : 0);
    if (room && size <= static_cast<std::int64_t>(sizeof room->bytes)) {
      packed_ = room->bytes;
    } else {
      memory_.reset(new std::byte[64 + size]);
      packed_ = align(memory_.get());
    }
    scratch_ = packed_ + pack;
    std::byte* next = scratch_ + lanes;
    const auto take = [&](auto*& array) {
      array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(next);
      next += n * sizeof *array;
    };
    if (needs.reshaped) {
      reshaped_ = std::make_unique<Workspace>(
          kReshapedColumns, Needs{needs.layout, needs.adds, needs.packed, false, 0}, watch);
    }
    part_sums_ = next;
    next += needs.part_bytes;
    if (needs.adds || both) {
      const auto take_exact = [&](auto*& array) {
        array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(next);
        next += exact * sizeof *array;
      };
      for (std::int64_t*& limb : limbs.limb) take_exact(limb);
      take_exact(limbs.exponent);
      next += exact % 2 * sizeof *limbs.exponent;  // to a multiple of 8 bytes
    }
    if (needs.adds) return;
    take(sums.hi);
    take(sums.lo);
    take(sums.bound);
    take(sums.residue);
    take(units.hi);
    take(units.lo);
    units.bound = units.hi;  // not used, but pointers to add to
    units.residue = sums.residue;
    take(results);
    if (needs.counts) take(counts);
    if (needs.squares) {
      take(squares.hi);
      take(squares.lo);
      take(squares.bound);
      squares.residue = sums.residue;
    }
    take(open);
  }

  // Most of what an output needs, lanes of a columns kernel included.
  static std::int64_t bytes_per_output(bool adds) {
    return adds ? kExactBytes + kExactLaneBytes
                : kBytes + kCountBytes + kSquareBytes + kLaneBytes;
  }

  // Most of what a column takes that is summed exactly, besides its sum.
  static constexpr std::int64_t bytes_per_exact_column() {
    return kExactBytes + static_cast<std::int64_t>(kExactLaneBytes);
  }

  // Sets result i of so many bytes, the low ones of `bits`, and takes it for decided.
  void set_result(std::int64_t i, std::uint64_t bits, std::int64_t bytes) {
    // The low bytes of a little-endian integer come first.
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    std::memcpy(reinterpret_cast<std::byte*>(results) + i * bytes, &bits, bytes);
    open[i] = false;
  }

  // Calls f(from, to) for stretches of begin..end that hold all open outputs, those together
  // that are at most `gap` apart.
  template <class F>
  void for_each_open(std::int64_t begin, std::int64_t end, std::int64_t gap, F f) const {
    for (std::int64_t i = begin; i < end;) {
      const void* found = std::memchr(open + i, kOpen, end - i);
      if (!found) return;
      i = static_cast<const std::uint8_t*>(found) - open;
      std::int64_t last = i;
      for (std::int64_t j = i; j < end && j <= last + gap; ++j) {
        if (open[j] == kOpen) last = j;
      }
      f(i, last + 1);
      i = last + 1;
    }
  }

  void* scratch() { return scratch_; }           // of a kernel
  std::byte* packed() { return packed_; }        // copies of elements
  std::byte* part_sums() { return part_sums_; }  // exact ones, of a part or of a few outputs
  Workspace& reshaped() { return *reshaped_; }

  Pace pace;
  Enclosures sums;
  Enclosures units;                 // of elements, and their greatest size: see Method::units
  Enclosures squares;               // if needed
  std::uint64_t* results;           // of the output's type, side by side
  std::uint64_t* counts = nullptr;  // elements that count, if needed
  std::uint8_t* open;
  Limbs limbs;  // instead of all these if it adds, or beside them: see exact_columns

 private:
  static constexpr std::int64_t kBytes = 7 * sizeof(double) + 1;
  static constexpr std::int64_t kCountBytes = sizeof(std::uint64_t);
  static constexpr std::int64_t kSquareBytes = 3 * sizeof(double);
  static constexpr std::int64_t kExactBytes =
      kMostLimbs * sizeof(std::int64_t) + sizeof(std::int32_t);

  static std::byte* align(std::byte* address) {
    return address + (-reinterpret_cast<std::uintptr_t>(address) & 63);
  }

  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<Workspace> reshaped_;
  std::byte* packed_;
  std::byte* scratch_;
  std::byte* part_sums_;
};

// One for each worker.
using Workspaces = std::vector<std::unique_ptr<Workspace>>;

}  // namespace halfulp
