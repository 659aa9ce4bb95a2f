#include "max_min.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "dispatch.h"
#include "read.h"
#include "rounding.h"
#include "schedule.h"
#include "watch.h"

namespace halfulp {
namespace {

// Elements are compared as integers, their keys, of which the order is that of the contract:
// docs/exactness.md#maxima-and-minima.

// Rows of a matrix that is reshaped take at most so many bytes, whole pages.
constexpr std::int64_t kReshapedBytes = 8 * 1024;

// Keys of a tile of columns stay in the first cache.
constexpr std::int64_t kTileBytes = 16 * 1024;

constexpr Cut kRowsCut = {1, kPackBytes};
constexpr Cut kColumnsCut = {8, 256};

Order order_of(const Request& request) {
  if (request.small) {
    switch (request.small->type) {
      case SmallType::int8:
        return Order::int8;
      case SmallType::uint16:
        return Order::uint16;
      case SmallType::int16:
        return Order::int16;
      case SmallType::uint8:
      case SmallType::boolean:  // of which any byte but 0 is true
        return Order::uint8;
    }
  }
  switch (request.input_type) {
    case Type::bfloat16:
      return Order::bfloat16;
    case Type::float16:
      return Order::float16;
    case Type::float32:
      return Order::float32;
    case Type::float64:
      return Order::float64;
    case Type::int32:
      return Order::int32;
    case Type::int64:
      return Order::int64;
    case Type::uint32:
      return Order::uint32;
    case Type::uint64:
      return Order::uint64;
  }
  __builtin_unreachable();
}

std::int64_t bytes_of(const Request& request) {
  return request.small ? request.small->bytes : format_of(request.input_type).bytes;
}

// A size, of the bits of an element of a format, as an element of another.
std::uint64_t converted(const Format& from, const Format& to, std::uint64_t bits) {
  if (!from.is_float) return to.is_float ? round_to(to, bits, 0, false) : bits;
  if (bits > from.infinity()) return to.quiet_nan();
  if (bits == from.infinity()) return to.infinity();
  const std::uint64_t hidden = std::uint64_t{1} << (from.precision - 1);
  const bool normal = bits >= hidden;
  const std::uint64_t m = normal ? (bits & (hidden - 1)) | hidden : bits;
  const int field = normal ? static_cast<int>(bits >> (from.precision - 1)) : 1;
  return round_to(to, m, field - 1 + from.least_exponent(), false);
}

// Memory of one worker, had before anything is written.
struct Memory {
  Memory(std::int64_t key_bytes, Watch* watch)
      : pace(watch), memory(new std::byte[64 + kPackBytes + key_bytes + kMoreBytes]) {
    packed = memory.get() + (-reinterpret_cast<std::uintptr_t>(memory.get()) & 63);
    more = packed + kPackBytes;
    keys = more + kMoreBytes;
  }

  static constexpr std::int64_t kMoreBytes = kReshapedBytes;

  Pace pace;
  std::unique_ptr<std::byte[]> memory;
  std::byte* packed;
  std::byte* more;  // keys of a reshaped matrix
  std::byte* keys;
};

using Memories = std::vector<std::unique_ptr<Memory>>;

// One call: tiles shared out, each with a worker's memory.
class Call {
 public:
  Call(const Plan& plan, const Request& request, const Executor& executor)
      : plan_(plan),
        request_(request),
        kept_(plan.kept.innermost()),
        bytes_(bytes_of(request)),
        kernel_(find_max_min_kernel(request.operation, request.term, order_of(request))),
        by_rows_(plan.layout == Layout::rows),
        reader_(plan, request.input,
                {bytes_, request.byte_swapped, nullptr, request.counted, kernel_.none}),
        schedule_(plan, Schedule::workers_for(plan, bytes_, executor),
                  by_rows_ ? kSmallestTile : kTileBytes / bytes_, executor, request.watch),
        memories_(memories(schedule_.workers())) {
    if (schedule_.parts() > 1) part_memories_ = memories(schedule_.parts());
  }

  void run() {
    const bool is_empty = plan_.reduced.count() == 0;
    schedule_.for_each_tile([&](const Tile& tile, std::size_t worker) {
      Memory& memory = *memories_[worker];
      memory.pace.count(1);
      const Place input = Place{request_.input, request_.mask} + tile.input;
      if (is_empty) {
        kernel_.clear(tile.outputs, memory.keys);
      } else if (schedule_.parts() > 1) {
        join_parts(input, tile.outputs, memory.keys);
      } else {
        join_part(plan_.reduced, input, tile.outputs, memory);
      }
      write(tile, memory.keys);
    });
  }

 private:
  Memories memories(std::int64_t count) const {
    Memories all(count);
    for (std::unique_ptr<Memory>& each : all) {
      each = std::make_unique<Memory>(schedule_.tile() * bytes_, request_.watch);
    }
    return all;
  }

  void join_parts(Place input, std::int64_t n, std::byte* keys) const {
    kernel_.clear(n, keys);
    std::mutex mutex;  // guards keys
    schedule_.for_each_part([&](const Part& part, std::size_t worker) {
      Memory& own = *part_memories_[worker];
      join_part(part.reduced, input + part.input, n, own);
      const std::lock_guard<std::mutex> guard(mutex);
      kernel_.join(own.keys, n, keys);
    });
  }

  // Sets the keys of n neighbouring outputs to those of all elements of some loops.
  void join_part(const Loops& reduced, Place input, std::int64_t n, Memory& memory) const {
    const Loop& inner = reduced.innermost();
    bool fresh = true;
    for_each_outer(reduced, [&](Step offset, std::ptrdiff_t) {
      const Place data = input + offset;
      if (by_rows_) {
        join_matrix({data, n, kept_.input, inner.count, inner.input}, memory.keys, fresh,
                    memory);
      } else {
        const Matrix matrix = {data, inner.count, inner.input, n, kept_.input};
        if (reader_.reshapes(matrix)) {
          join_reshaped(matrix, fresh, memory);
        } else {
          join_matrix(matrix, memory.keys, fresh, memory);
        }
      }
      fresh = false;
    });
  }

  void join_matrix(const Matrix& matrix, std::byte* keys, bool fresh, Memory& memory) const {
    const auto join = by_rows_ ? kernel_.rows : kernel_.columns;
    const Cut& cut = by_rows_ ? kRowsCut : kColumnsCut;
    reader_.for_each_block(matrix, cut, memory.packed, [&](const Block& block) {
      const bool first = fresh && (by_rows_ ? block.column : block.row) == 0;
      join(block.data, block.row_stride, block.rows, block.columns,
           keys + (by_rows_ ? block.row : block.column) * bytes_, first);
      memory.pace.count(block.cost);
    });
  }

  void join_reshaped(const Matrix& matrix, bool fresh, Memory& memory) const {
    const std::int64_t most = std::min(kReshapedBytes / bytes_, matrix.rows * matrix.columns);
    const Reshaped reshaped = reader_.reshape(matrix, most);
    join_matrix(reshaped.wide, memory.more, true, memory);
    if (fresh) kernel_.clear(matrix.columns, memory.keys);
    for (std::int64_t j = 0; j < reshaped.wide.columns; j += matrix.columns) {
      kernel_.join(memory.more + j * bytes_, matrix.columns, memory.keys);
    }
    if (reshaped.rest.rows > 0) join_matrix(reshaped.rest, memory.keys, false, memory);
  }

  void write(const Tile& tile, std::byte* keys) const {
    kernel_.elements(tile.outputs, keys);
    std::byte* const output = request_.output + tile.output;
    if (request_.term == Term::magnitude) return write_sizes(tile, keys, output);
    if (request_.small && request_.small->type == SmallType::boolean) {
      for (std::int64_t i = 0; i < tile.outputs; ++i) {
        keys[i] = std::byte{keys[i] != std::byte{0}};
      }
    }
    store_results(output, kept_.output, keys, bytes_, tile.outputs);
  }

  void write_sizes(const Tile& tile, const std::byte* keys, std::byte* output) const {
    const Format& from = format_of(request_.input_type);
    const Format& to = format_of(request_.output_type);
    const bool is_bool = request_.small && request_.small->type == SmallType::boolean;
    const int bits = 8 * to.bytes - (to.is_signed ? 1 : 0);
    for (std::int64_t i = 0; i < tile.outputs; ++i) {
      std::uint64_t size = 0;  // little endian, as all processors are that this runs on
      std::memcpy(&size, keys + i * bytes_, bytes_);
      if (is_bool) size = size != 0;
      if (request_.checked && !to.is_float && bits < 64 && size >> bits != 0) {
        throw SumOverflow{{size, 0, 0}, tile.output + i * kept_.output};
      }
      size = converted(from, to, size);
      std::memcpy(output + i * kept_.output, &size, to.bytes);
    }
  }

  const Plan& plan_;
  const Request& request_;
  const Loop& kept_;
  const std::int64_t bytes_;  // of an element
  const MaxMinKernel& kernel_;
  const bool by_rows_;
  const Reader reader_;
  const Schedule schedule_;
  const Memories memories_;
  Memories part_memories_;
};

}  // namespace

void reduce_max_min(const Plan& plan, const Request& request, const Executor& executor) {
  Call(plan, request, executor).run();
}

}  // namespace halfulp
