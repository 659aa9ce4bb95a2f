#include "reduce.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "accumulator.h"
#include "modes.h"
#include "pack.h"
#include "parallel.h"
#include "rounding.h"

namespace halfulp {
namespace {

// Scratch memory of one call, shared by its threads, unless there are so many that each
// needs more for its smallest tile.
constexpr std::int64_t kMostScratch = 1024 * 1024;
constexpr std::int64_t kPackBytes = 16 * 1024;
constexpr std::int64_t kSmallestTile = 256;

// A matrix of fewer columns is folded to this many.
constexpr std::int64_t kFoldedColumns = 512;

// The most elements that a kernel gets at once: a few milliseconds' work. Such pieces consist
// of whole blocks of every kernel: of rows at most 2^18 columns, of columns 2^11 rows.
constexpr std::int64_t kPiece = std::int64_t{1} << 23;
constexpr std::int64_t kPieceColumns = kPiece / 8;
constexpr std::int64_t kRowsUnit = 8;  // rows that a kernel sums at once, at most
constexpr std::int64_t kColumnsUnit = 2048;

// Elements after which a thread looks whether it shall end; and how many an element counts
// that is read alone, from a page of its own perhaps.
constexpr std::int64_t kLookEvery = std::int64_t{1} << 15;
constexpr std::int64_t kAlone = 16;
constexpr std::ptrdiff_t kNearBytes = 64;

// A call of more elements is long: it takes up to 50 nanoseconds for each.
constexpr double kLongElements = 1 << 22;

// Columns of a packed copy, so few that it has many rows: a kernel loads and stores all sums.
constexpr std::int64_t kPackedWidth = 256;

// Outputs of a columns tile that lie this near share cache lines.
constexpr std::int64_t kNearColumns = 16;

// Memory for one thread and tiles of at most n outputs: all that it will need.
class Workspace {
 public:
  struct Needs {
    Layout layout;
    bool exact;                // sums without rounding
    bool packed;               // elements are copied before they are read
    bool folded;               // a matrix is folded to one of kFoldedColumns
    std::int64_t state_bytes;  // for states of a part of the terms
  };

  Workspace(std::int64_t outputs, const Needs& needs) {
    const std::int64_t n = outputs + static_cast<std::int64_t>(kPadding);
    const bool columns = needs.layout == Layout::columns;
    const std::int64_t lanes =
        columns ? (n + 64) * (needs.exact ? kExactLaneBytes : kLaneBytes) : 0;
    const std::int64_t pack = needs.packed ? kPackBytes : 0;
    memory_.reset(new std::byte[64 + pack + lanes + needs.state_bytes +
                                n * (needs.exact ? kExactBytes : kBytes)]);
    packed_ = align(memory_.get());
    scratch_ = packed_ + pack;
    std::byte* next = scratch_ + lanes;
    const auto take = [&](auto*& array) {
      array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(next);
      next += n * sizeof *array;
    };
    if (needs.folded) {
      folded_ = std::make_unique<Workspace>(
          kFoldedColumns, Needs{needs.layout, needs.exact, needs.packed, false, 0});
    }
    if (needs.exact) {
      states_ = next;
      next += needs.state_bytes;
      for (std::int64_t*& part : parts.part) take(part);
      take(parts.exponent);
      return;
    }
    take(sums.hi);
    take(sums.lo);
    take(sums.bound);
    take(sums.residue);
    take(grids.hi);
    take(grids.residue);
    grids.lo = grids.bound = grids.hi;  // not used, but pointers to add to
    take(results);
    take(exponents);
    take(open);
  }

  // Most of what an output needs, lanes of a columns kernel included.
  static std::int64_t bytes_per_output(bool exact) {
    return exact ? kExactBytes + kExactLaneBytes : kBytes + kLaneBytes;
  }

  void* scratch() { return scratch_; }
  std::byte* packed() { return packed_; }
  std::byte* states() { return states_; }
  Workspace& folded() { return *folded_; }

  std::int64_t unseen = 0;  // elements since the last look
  States sums;
  States grids;
  std::uint64_t* results;  // of the output's type, side by side
  int* exponents;          // g of a grid 2^g, in refine
  std::uint8_t* open;
  Parts parts;  // instead of all these, if exact

 private:
  static constexpr std::int64_t kBytes = 7 * sizeof(double) + sizeof(int) + 1;
  static constexpr std::int64_t kExactBytes =
      kMostParts * sizeof(std::int64_t) + sizeof(std::int32_t);

  static std::byte* align(std::byte* address) {
    return address + (-reinterpret_cast<std::uintptr_t>(address) & 63);
  }

  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<Workspace> folded_;
  std::byte* packed_;
  std::byte* scratch_;
  std::byte* states_ = nullptr;
};

// Of columns summed exactly: bytes read twice, so that they stay in the second cache; and
// how many a packed copy is wide.
constexpr std::int64_t kBlockBytes = 1024 * 1024;
constexpr std::int64_t kPackedColumns = 64;

// Fewer terms of a row, or rows of columns, are added to a sum one by one.
constexpr std::int64_t kFewTerms = 64;
constexpr std::int64_t kFewRows = 4;

// Adds state j of `more` to state i.
void merge(Method method, const States& states, std::int64_t i, const States& more,
           std::int64_t j) {
  if (method == Method::residue || method == Method::grid) {
    states.residue[i] += more.residue[j];
  } else {
    accumulate(states.hi[i], states.lo[i], states.bound[i], more.hi[j], more.lo[j],
               more.bound[j]);
  }
}

// Makes `states` those of no terms.
void clear(Method method, const States& states, std::int64_t n) {
  std::fill_n(states.residue, n, 0);
  if (method == Method::residue || method == Method::grid) return;
  for (double* array : {states.hi, states.lo, states.bound}) std::fill_n(array, n, 0.0);
}

// Calls f(input offset, output offset) for every turn of all loops but the innermost.
template <class F>
void for_each_outer(const Loops& loops, F f) {
  std::int64_t index[kMaxRank] = {};
  std::ptrdiff_t input = 0;
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

class Reduction {
 public:
  Reduction(const Plan& plan, const Request& request, const Executor& executor)
      : plan_(plan),
        request_(request),
        executor_(executor),
        kept_(plan.kept.innermost()),
        input_format_(format_of(request.input_type)),
        output_format_(format_of(request.output_type)),
        sum_format_(sum_format(input_format_)),
        bytes_(input_format_.bytes),
        stored_bytes_(request.small ? request.small->bytes : bytes_),
        terms_(plan.reduced.count()) {
    if (!input_format_.is_float) {
      method_ = Method::residue;
    } else if (std::max(input_format_.precision, output_format_.precision) <= 11) {
      method_ = Method::narrow;
    } else if (std::max(input_format_.precision, output_format_.precision) <= 24) {
      method_ = Method::plain;
    } else {
      method_ = Method::compensated;
    }
    kernel_ = kernel_for(method_);
    if (input_format_.is_float) round_ = find_rounder(request.output_type).function;
    exactly_ = exactly(request.input_type);
    exact_rows_ = find_exact_kernel(Layout::rows, request.input_type);
    exact_columns_ = find_exact_kernel(Layout::columns, request.input_type);
    exact_ = request.checked || (input_format_.is_float && terms_ > kMaxAdditions) ||
             (!input_format_.is_float && output_format_.is_float && !residues_are_sums());
    whole_elements_ = has_whole_elements();
    const Loop& reduced = plan.reduced.innermost();
    folds_ = plan.layout == Layout::columns && kept_.count < kFoldedColumns / 4 &&
             kept_.input == stored_bytes_ && reduced.input == kept_.count * stored_bytes_ &&
             reduced.count >= 2 * kFoldedColumns;
  }

  // Splits the work over the outputs if there are enough of them, else over the terms.
  void run() {
    const std::int64_t outputs = plan_.kept.count();
    if (outputs == 0) return;
    const double bytes = static_cast<double>(outputs) * static_cast<double>(terms_) *
                         static_cast<double>(bytes_);
    const double worth = bytes / static_cast<double>(bytes_per_thread());
    const auto threads = static_cast<std::int64_t>(
        std::max(1.0, std::min(worth, static_cast<double>(executor_.limit()))));
    const std::int64_t outer = outputs / kept_.count;
    tile_ = std::min(kept_.count, widest_tile(threads));
    if (threads > 1 && outer < 4 * threads) {
      // Four turns for each thread even out their speed; columns lose more by narrow tiles.
      const std::int64_t turns = plan_.layout == Layout::rows ? 4 * threads : threads;
      const std::int64_t share = (kept_.count * outer + turns - 1) / turns;
      tile_ = std::min(tile_, std::max<std::int64_t>(share, kept_tile_floor()));
    }
    tiles_per_row_ = (kept_.count + tile_ - 1) / tile_;
    tasks_ = outer * tiles_per_row_;
    tasks_per_turn_ = std::max<std::int64_t>(1, tasks_ / (8 * threads));
    const bool spread = tasks_ >= threads && threads > 1;
    if (!spread) inner_threads_ = static_cast<int>(threads);
    // All memory is had before anything is written: a call is done whole or not at all.
    workspaces_ = workspaces_for(spread ? threads : 1, false);
    if (parts() > 1) part_workspaces_ = workspaces_for(parts(), true);
    share(tasks_, tasks_per_turn_, spread ? threads : 1,
          [this](std::int64_t task, std::size_t worker) {
            run_task(task, *workspaces_[worker]);
          });
  }

 private:
  // Wide enough to read whole pages of a row; no wider than needed, to stay in the cache.
  std::int64_t widest_tile(std::int64_t threads) const {
    if (plan_.layout == Layout::rows) return kSmallestTile;
    const bool few_rows = plan_.reduced.innermost().count < 64;
    const std::int64_t wanted =
        request_.states ? kBlockBytes / exact_rows_of(request_.input_type) / bytes_
                        : (few_rows ? 8192 / bytes_ : static_cast<std::int64_t>(kTile));
    const std::int64_t share = kMostScratch / threads - kPackBytes;
    const std::int64_t room = share / Workspace::bytes_per_output(request_.states) / 64 * 64;
    return std::max(kSmallestTile, std::min(wanted, room));
  }

  std::vector<std::unique_ptr<Workspace>> workspaces_for(std::int64_t count,
                                                         bool of_parts) const {
    const Loop& inner =
        plan_.layout == Layout::rows ? plan_.reduced.innermost() : plan_.kept.innermost();
    // Columns whose sums are open are read one by one in the end.
    const bool packed = plan_.layout == Layout::columns || !readable(inner.input);
    const bool exact = request_.states;
    const Workspace::Needs needs = {
        plan_.layout, exact, packed, folds_ && !exact,
        exact && of_parts ? tile_ * 8 * sum_format_.state_digits : 0};
    std::vector<std::unique_ptr<Workspace>> workspaces(count);
    for (std::unique_ptr<Workspace>& workspace : workspaces) {
      workspace =
          std::make_unique<Workspace>(exact ? std::max(tile_, kFoldedColumns) : tile_, needs);
    }
    return workspaces;
  }

  // A tile of columns narrower than this would read cache lines in part.
  std::int64_t kept_tile_floor() const {
    return plan_.layout == Layout::columns ? kSmallestTile : 1;
  }

  // Calls f(item, worker) for all items, by so many workers at once, each of which takes some
  // at a time until none is left; throws what it threw for the first item that failed.
  template <class F>
  void share(std::int64_t items, std::int64_t per_turn, std::int64_t workers, F f) {
    std::atomic<std::int64_t> next_item{0};
    std::atomic<std::size_t> next_worker{0};
    std::exception_ptr failure;
    std::int64_t failed_item = items;
    int running = 0;
    std::optional<std::condition_variable> ended;
    const bool watched = request_.watch && workers > 1;
    if (watched) ended.emplace();
    const auto work = [&] {
      std::int64_t item = 0;
      if (watched) {
        const std::lock_guard<std::mutex> guard(mutex_);
        ++running;
      }
      try {
        const StandardModes modes;
        const std::size_t worker = next_worker.fetch_add(1);
        for (;;) {
          const std::int64_t begin = next_item.fetch_add(per_turn);
          if (begin >= items) return;
          const std::int64_t end = std::min(begin + per_turn, items);
          for (item = begin; item < end; ++item) f(item, worker);
        }
      } catch (...) {
        // Items before this one were taken before it, so that they end or fail themselves.
        const std::lock_guard<std::mutex> guard(mutex_);
        if (item < failed_item) {
          failure = std::current_exception();
          failed_item = item;
        }
        next_item.store(items);
      }
      if (!watched) return;
      // Nothing would be heard while the thread that asks waits for others to end.
      std::unique_lock<std::mutex> lock(mutex_);
      --running;
      ended->notify_all();
      while (std::this_thread::get_id() == caller_ && running > 0) {
        ended->wait_for(lock, Watch::kInterval);
        lock.unlock();
        request_.watch->ends();
        lock.lock();
      }
    };
    if (workers > 1) {
      executor_.run(static_cast<int>(workers), std::ref(work));  // by reference: no memory
    } else {
      work();
    }
    if (request_.watch) request_.watch->look();
    if (failure) std::rethrow_exception(failure);
  }

  void run_task(std::int64_t task, Workspace& workspace) {
    look(workspace, 1);
    std::ptrdiff_t input = plan_.input_offset;
    std::ptrdiff_t output = plan_.output_offset;
    std::int64_t row = task / tiles_per_row_;
    for (int i = plan_.kept.size - 2; i >= 0; --i) {
      const Loop& loop = plan_.kept.loops[i];
      input += row % loop.count * loop.input;
      output += row % loop.count * loop.output;
      row /= loop.count;
    }
    const std::int64_t begin = task % tiles_per_row_ * tile_;
    run_tile(request_.input + input + begin * kept_.input,
             request_.output + output + begin * kept_.output,
             std::min(tile_, kept_.count - begin), workspace);
  }

  // Computes n outputs, neighbours along the innermost kept loop.
  void run_tile(const std::byte* input, std::byte* output, std::int64_t n,
                Workspace& workspace) {
    if (request_.states) return add_to_states(input, output, n, workspace);
    auto* results = reinterpret_cast<std::byte*>(workspace.results);
    if (exact_) {
      for (std::int64_t i = 0; i < n; ++i) {
        try {
          set_result(results, i, resolve(input + i * kept_.input, workspace));
        } catch (SumOverflow& overflow) {
          overflow.output = output - request_.output + i * kept_.output;
          throw;
        }
      }
    } else {
      clear(method_, workspace.sums + n, kPadding);
      sum_terms(method_, input, n, workspace.sums, workspace);
      if (method_ == Method::residue) {
        if (output_format_.is_float) {
          for (std::int64_t i = 0; i < n; ++i) {
            set_result(results, i,
                       round_digits(output_format_, &workspace.sums.residue[i], 1, 0));
          }
        } else if (output_format_.bytes == 8) {
          std::memcpy(results, workspace.sums.residue, n * 8);
        } else {
          auto* low = reinterpret_cast<std::uint32_t*>(results);
          for (std::int64_t i = 0; i < n; ++i) {
            low[i] = static_cast<std::uint32_t>(workspace.sums.residue[i]);
          }
        }
      } else if (round_(workspace.sums, n, workspace.results, workspace.open)) {
        for_each_run(workspace, 0, n, [&](std::int64_t begin, std::int64_t end) {
          refine(method_, input, begin, end, workspace);
        });
      }
    }
    if (kept_.output == output_format_.bytes) {
      std::memcpy(output, results, n * output_format_.bytes);
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(output + i * kept_.output, results + i * output_format_.bytes,
                    output_format_.bytes);
      }
    }
  }

  void set_result(std::byte* results, std::int64_t i, std::uint64_t bits) const {
    // The low bytes of a little-endian integer come first.
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    std::memcpy(results + i * output_format_.bytes, &bits, output_format_.bytes);
  }

  // Calls f(begin, end) for runs of open outputs within begin..end.
  template <class F>
  void for_each_run(const Workspace& workspace, std::int64_t begin, std::int64_t end, F f) {
    const std::int64_t gap = plan_.layout == Layout::columns ? kNearColumns : 1;
    for (std::int64_t i = begin; i < end;) {
      const void* found = std::memchr(workspace.open + i, kOpen, end - i);
      if (!found) return;
      i = static_cast<const std::uint8_t*>(found) - workspace.open;
      std::int64_t last = i;
      for (std::int64_t j = i; j < end && j <= last + gap; ++j) {
        if (workspace.open[j]) last = j;
      }
      f(i, last + 1);
      i = last + 1;
    }
  }

  // Decides the open outputs of begin..end, whose sums `method` made: by closer rounding, by
  // the grid that their elements lie on (ties do not end in any other way), by a better
  // method, and in the end exactly.
  void refine(Method method, const std::byte* input, std::int64_t begin, std::int64_t end,
              Workspace& workspace) {
    decide_run(method, begin, end, workspace, [](std::int64_t) { return 0.0; });

    const States& sums = workspace.sums;
    const States grids = workspace.grids + begin;
    bool any = false;
    std::fill_n(grids.hi, end - begin, 0.0);
    for (std::int64_t i = begin; i < end; ++i) {
      int& g = workspace.exponents[i];
      if (workspace.open[i] && method != Method::narrow &&
          grid_of(sums.hi[i], sums.lo[i], sums.bound[i], &g)) {
        workspace.grids.hi[i] = std::ldexp(3.0, 51 + g);
        any = true;
      }
    }
    if (any) {
      sum_terms(Method::grid, input + begin * kept_.input, end - begin, grids, workspace);
      decide_run(method, begin, end, workspace, [&](std::int64_t i) {
        const bool fits = workspace.grids.hi[i] > 0 && workspace.grids.residue[i] == 0;
        return fits ? std::ldexp(1.0, 2 * workspace.exponents[i]) : 0.0;
      });
    }

    for_each_run(workspace, begin, end, [&](std::int64_t from, std::int64_t to) {
      if (method == Method::compensated) {
        for (std::int64_t i = from; i < to; ++i) {
          if (!workspace.open[i]) continue;
          set_result(reinterpret_cast<std::byte*>(workspace.results), i,
                     resolve(input + i * kept_.input, workspace));
          workspace.open[i] = false;
        }
        return;
      }
      const Method better = method == Method::narrow ? Method::plain : Method::compensated;
      sum_terms(better, input + from * kept_.input, to - from, sums + from, workspace);
      refine(better, input, from, to, workspace);
    });
  }

  template <class Grid>
  void decide_run(Method method, std::int64_t begin, std::int64_t end, Workspace& workspace,
                  Grid grid) const {
    const States& sums = workspace.sums;
    const bool infinite_is_final =
        request_.input_type != Type::float64 &&
        !(method == Method::narrow && request_.input_type == Type::bfloat16);
    for (std::int64_t i = begin; i < end; ++i) {
      std::uint64_t bits;
      if (workspace.open[i] && decide(output_format_, sums.hi[i], sums.lo[i], sums.bound[i],
                                      infinite_is_final, grid(i), &bits)) {
        set_result(reinterpret_cast<std::byte*>(workspace.results), i, bits);
        workspace.open[i] = false;
      }
    }
  }

  // Sets `states` to the sums of all terms of n neighbouring outputs, on several threads if
  // the outputs are too few to be spread over them.
  void sum_terms(Method method, const std::byte* input, std::int64_t n, const States& states,
                 Workspace& workspace) {
    if (terms_ == 0) return clear(method, states, n);
    if (parts() <= 1) return sum_loops(method, plan_.reduced, input, n, states, workspace);
    clear(method, states, n);
    for_each_part(input, [&](const Loops& loops, const std::byte* data, Workspace& own) {
      if (method == Method::grid) std::copy_n(states.hi, n, own.sums.hi);
      sum_loops(method, loops, data, n, own.sums, own);
      const std::lock_guard<std::mutex> guard(mutex_);
      for (std::int64_t i = 0; i < n; ++i) merge(method, states, i, own.sums, i);
    });
  }

  // The reduced loop that threads share where outputs are too few.
  int longest_loop() const {
    int longest = 0;
    for (int i = 1; i < plan_.reduced.size; ++i) {
      if (plan_.reduced.loops[i].count > plan_.reduced.loops[longest].count) longest = i;
    }
    return longest;
  }

  std::int64_t parts() const {
    return std::min<std::int64_t>(inner_threads_, plan_.reduced.loops[longest_loop()].count);
  }

  // Calls sum(loops, input, workspace) for parts() parts that make up all terms, at once.
  template <class F>
  void for_each_part(const std::byte* input, F sum) {
    const int longest = longest_loop();
    const Loop& split = plan_.reduced.loops[longest];
    const std::int64_t count = parts();
    share(count, 1, count, [&](std::int64_t part, std::size_t worker) {
      const std::int64_t begin = split.count * part / count;
      Loops loops = plan_.reduced;
      loops.loops[longest].count = split.count * (part + 1) / count - begin;
      sum(loops, input + begin * split.input, *part_workspaces_[worker]);
    });
  }

  Function kernel_for(Method method) const {
    return find_kernel(plan_.layout, method, request_.input_type);
  }

  void sum_loops(Method method, const Loops& reduced, const std::byte* input, std::int64_t n,
                 const States& states, Workspace& workspace) {
    const Function kernel = method == method_ ? kernel_ : kernel_for(method);
    std::optional<FlushSubnormals> flush;
    if (method == Method::narrow && request_.input_type == Type::bfloat16) flush.emplace();
    const Loop& inner = reduced.innermost();
    bool fresh = true;
    for_each_outer(reduced, [&](std::ptrdiff_t in, std::ptrdiff_t) {
      if (plan_.layout == Layout::rows) {
        add_block(kernel, input + in, n, kept_.input, inner.count, inner.input, states, fresh,
                  workspace);
      } else if (folds(inner, n)) {
        add_folded(method, kernel, input + in, inner.count, n, states, fresh, workspace);
      } else {
        add_block(kernel, input + in, inner.count, inner.input, n, kept_.input, states, fresh,
                  workspace);
      }
      fresh = false;
    });
  }

  // Adds a matrix of many rows of few columns, all side by side, to the states, as one of
  // fewer rows of more columns: a vector would hold a row and else nothing.
  void add_folded(Method method, Function kernel, const std::byte* data, std::int64_t rows,
                  std::int64_t columns, const States& states, bool fresh,
                  Workspace& workspace) {
    const std::int64_t folds = kFoldedColumns / columns;
    const std::int64_t wide = folds * columns;
    const std::int64_t wide_rows = rows / folds;
    const std::int64_t rest = rows % folds;
    Workspace& own = workspace.folded();
    if (method == Method::grid) {
      for (std::int64_t j = 0; j < wide; ++j) own.sums.hi[j] = states.hi[j % columns];
    }
    add_block(kernel, data, wide_rows, wide * stored_bytes_, wide, stored_bytes_, own.sums,
              true, own);
    if (fresh) clear(method, states, columns);
    for (std::int64_t j = 0; j < wide; ++j) merge(method, states, j % columns, own.sums, j);
    if (rest > 0) {
      data += wide_rows * wide * stored_bytes_;
      add_block(kernel, data, rest, columns * stored_bytes_, columns, stored_bytes_, states,
                false, workspace);
    }
  }

  // Adds a matrix to the states, a piece at a time, and through a packed copy of it unless its
  // elements can be read where they are.
  void add_block(Function kernel, const std::byte* data, std::int64_t rows,
                 std::ptrdiff_t row_stride, std::int64_t columns, std::ptrdiff_t stride,
                 const States& states, bool fresh, Workspace& workspace) {
    const bool by_rows = plan_.layout == Layout::rows;
    const bool direct = readable(stride);
    std::int64_t width = columns;
    std::int64_t height = rows;
    if (!direct || rows * columns > kPiece) {
      const std::int64_t most = direct ? kPiece : kPackBytes / bytes_;
      const std::int64_t unit = direct ? (by_rows ? kRowsUnit : kColumnsUnit) : 1;
      const std::int64_t widest = by_rows ? most : kPackedWidth;
      width = std::min(columns, direct ? kPieceColumns : widest);
      height = std::max(unit, most / width / unit * unit);
    }
    for (std::int64_t i = 0; i < rows; i += height) {
      for (std::int64_t j = 0; j < columns; j += width) {
        const std::byte* piece = data + i * row_stride + j * stride;
        const std::int64_t m = std::min(height, rows - i);
        const std::int64_t n = std::min(width, columns - j);
        std::ptrdiff_t piece_stride = row_stride;
        if (!direct) {
          read(piece, m, row_stride, n, stride, workspace);
          piece = workspace.packed();
          piece_stride = n * bytes_;
        }
        const bool first = fresh && (by_rows ? j : i) == 0;
        kernel(piece, piece_stride, m, n, states + (by_rows ? i : j), first,
               workspace.scratch());
        look(workspace, direct ? m * n : m * n * kAlone);
      }
    }
  }

  // Ends the call if it is interrupted, after so many elements more.
  void look(Workspace& workspace, std::int64_t elements) const {
    workspace.unseen += elements;
    if (workspace.unseen < kLookEvery) return;
    workspace.unseen = 0;
    if (request_.watch) request_.watch->look();
  }

  // The result of one output from its exact sum.
  std::uint64_t resolve(const std::byte* input, Workspace& workspace) const {
    std::uint64_t digits[kMostDigits] = {};
    add_exactly(plan_.reduced, input, digits, workspace);
    if (!input_format_.is_float && !output_format_.is_float) {
      const int bits = 8 * output_format_.bytes - (output_format_.is_signed ? 1 : 0);
      if (digits[1] != 0 || digits[2] != 0 || (bits < 64 && digits[0] >> bits != 0)) {
        throw SumOverflow{{digits[0], digits[1], digits[2]}, 0};
      }
    }
    return round_sum(input_format_, digits, sum_format_.digits, output_format_);
  }

  // Adds the terms of one output to its exact sum.
  void add_exactly(const Loops& reduced, const std::byte* input, std::uint64_t* digits,
                   Workspace& workspace) const {
    for_each_chunk(reduced, input, workspace, [&](const std::byte* data, std::int64_t n) {
      add_run(data, n, digits, workspace);
    });
  }

  // Adds the squares of n elements side by side to an exact sum.
  void add_run(const std::byte* data, std::int64_t n, std::uint64_t* digits,
               Workspace& workspace) const {
    constexpr std::int64_t kColumns = kExactColumns;
    constexpr std::int64_t kRows = 16;
    std::int64_t part[kMostParts][kRows];
    std::int32_t exponent[kRows];
    const Parts parts = {{part[0], part[1], part[2], part[3]}, exponent};
    while (n >= kFewTerms) {
      const std::int64_t columns = std::min(n, kColumns);
      const std::int64_t rows = std::max<std::int64_t>(1, std::min(n / kColumns, kRows));
      const std::size_t count =
          exact_rows_(data, columns * bytes_, rows, columns, parts, nullptr);
      for (std::int64_t i = 0; i < rows; ++i, data += columns * bytes_) {
        if (exponent[i] == kNotExact) {
          exactly_.add_squares(digits, data, columns);
        } else {
          exactly_.add_parts(digits, parts + i, count);
        }
      }
      n -= rows * columns;
      look(workspace, rows * columns);
    }
    look(workspace, n);
    exactly_.add_squares(digits, data, n);
  }

  // Adds the terms of n neighbouring outputs to their states.
  void add_to_states(const std::byte* input, std::byte* output, std::int64_t n,
                     Workspace& workspace) {
    const StateArray states = {output, kept_.output, n};
    if (parts() <= 1) return add_part(plan_.reduced, input, n, states, workspace);
    for_each_part(input, [&](const Loops& loops, const std::byte* data, Workspace& own) {
      const std::ptrdiff_t size = 8 * sum_format_.state_digits;
      const StateArray part = {own.states(), size, n};
      std::fill_n(own.states(), n * size, std::byte{0});
      add_part(loops, data, n, part, own);
      const std::lock_guard<std::mutex> guard(mutex_);
      for (std::int64_t i = 0; i < n; ++i) add_to_state(input_format_, states(i), part(i));
    });
  }

  void add_part(const Loops& reduced, const std::byte* input, std::int64_t n,
                const StateArray& states, Workspace& workspace) const {
    if (terms_ == 0) return;
    if (plan_.layout == Layout::rows) {
      for (std::int64_t i = 0; i < n; ++i) {
        std::uint64_t digits[3] = {};
        std::uint64_t* const sum = input_format_.is_float ? states(i) : digits;
        add_exactly(reduced, input + i * kept_.input, sum, workspace);
        if (!input_format_.is_float) add_to_state(input_format_, states(i), digits, digits[2]);
      }
      return;
    }
    const Loop& inner = reduced.innermost();
    for_each_outer(reduced, [&](std::ptrdiff_t in, std::ptrdiff_t) {
      const std::byte* data = input + in;
      if (!readable(kept_.input)) {
        add_packed_columns(data, inner, n, states, workspace);
      } else if (folds(inner, n)) {
        const std::int64_t folds = kFoldedColumns / n;
        const std::int64_t wide = folds * n;
        const std::int64_t rows = inner.count / folds;
        add_columns(data, rows, wide * bytes_, wide, states, workspace);
        add_columns(data + rows * wide * bytes_, inner.count % folds, n * bytes_, n, states,
                    workspace);
      } else {
        add_columns(data, inner.count, inner.input, n, states, workspace);
      }
    });
  }

  void add_packed_columns(const std::byte* data, const Loop& inner, std::int64_t columns,
                          const StateArray& states, Workspace& workspace) const {
    const std::int64_t width = std::min(columns, kPackedColumns);
    const std::int64_t height = kPackBytes / bytes_ / width;
    for (std::int64_t i = 0; i < inner.count; i += height) {
      for (std::int64_t j = 0; j < columns; j += width) {
        const std::int64_t m = std::min(height, inner.count - i);
        const std::int64_t n = std::min(width, columns - j);
        read(data + i * inner.input + j * kept_.input, m, inner.input, n, kept_.input,
             workspace);
        look(workspace, m * n * kAlone);
        const StateArray some = {states.first + j * states.stride, states.stride, n};
        add_columns(workspace.packed(), m, n * bytes_, n, some, workspace);
      }
    }
  }

  // Adds the columns of a matrix to states.
  void add_columns(const std::byte* data, std::int64_t rows, std::ptrdiff_t row_stride,
                   std::int64_t columns, const StateArray& states, Workspace& workspace) const {
    if (rows < kFewRows) {
      look(workspace, rows * columns);
      for (std::int64_t i = 0; i < rows; ++i, data += row_stride) {
        for (std::int64_t j = 0; j < columns; ++j) {
          exactly_.add_squares_to_state(states(j), data + j * bytes_, 1);
        }
      }
      return;
    }
    const std::int64_t wanted = kBlockBytes / (columns * bytes_) / 8 * 8;
    const std::int64_t height =
        std::max<std::int64_t>(8, std::min(wanted, exact_rows_of(request_.input_type)));
    for (std::int64_t row = 0; row < rows; row += height, data += height * row_stride) {
      const std::int64_t m = std::min(height, rows - row);
      look(workspace, m * columns);
      const Parts& parts = workspace.parts;
      const std::size_t count =
          exact_columns_(data, row_stride, m, columns, parts, workspace.scratch());
      static_assert(2 * exact_rows_of(Type::float16) <= 8 * exact_rows_of(Type::float64));
      if (!exactly_.add_outputs(states, parts, count, columns)) continue;
      for (std::int64_t j = 0; j < columns; ++j) {
        if (parts.exponent[j] != kNotExact) continue;
        std::uint64_t column[exact_rows_of(Type::float64)];
        auto* terms = reinterpret_cast<std::byte*>(column);
        pack(terms, data + j * bytes_, 1, 0, m, row_stride, bytes_, false);
        exactly_.add_squares_to_state(states(j), terms, m);
      }
    }
  }

  // Calls f(data, n) for n terms of one output side by side at a time, until all were seen.
  template <class F>
  void for_each_chunk(const Loops& reduced, const std::byte* input, Workspace& workspace,
                      F f) const {
    if (terms_ == 0) return;
    const Loop& inner = reduced.innermost();
    for_each_outer(reduced, [&](std::ptrdiff_t in, std::ptrdiff_t) {
      const std::byte* data = input + in;
      if (readable(inner.input)) {
        f(data, inner.count);
        return;
      }
      const std::int64_t chunk = kPackBytes / bytes_;
      for (std::int64_t i = 0; i < inner.count; i += chunk) {
        const std::int64_t n = std::min(chunk, inner.count - i);
        read(data + i * inner.input, 1, 0, n, inner.input, workspace);
        f(workspace.packed(), n);
        look(workspace, n * kAlone);
      }
    });
  }

  // Makes a packed copy of a matrix, in the type that kernels read.
  void read(const std::byte* data, std::int64_t rows, std::ptrdiff_t row_stride,
            std::int64_t columns, std::ptrdiff_t stride, Workspace& workspace) const {
    if (request_.small) {
      widen(workspace.packed(), data, rows, row_stride, columns, stride, request_.small->type,
            request_.byte_swapped);
    } else {
      pack(workspace.packed(), data, rows, row_stride, columns, stride, bytes_,
           request_.byte_swapped);
    }
  }

  // Whether no sum of integers reaches 2^64, so that its residue is all of it.
  bool residues_are_sums() const {
    const std::int64_t bits = 16 * stored_bytes_ - (input_format_.is_signed ? 2 : 0);
    return bits < 64 && terms_ < std::int64_t{1} << std::min<std::int64_t>(64 - bits, 62);
  }

  // Whether elements `stride` bytes apart can be read as an array of native, aligned ones.
  bool readable(std::ptrdiff_t stride) const { return stride == bytes_ && whole_elements_; }

  bool has_whole_elements() const {
    auto all = reinterpret_cast<std::uintptr_t>(request_.input + plan_.input_offset);
    for (const Loops* loops : {&plan_.kept, &plan_.reduced}) {
      for (int i = 0; i < loops->size; ++i) all |= loops->loops[i].input;
    }
    return !request_.byte_swapped && !request_.small && (all & (bytes_ - 1)) == 0;
  }

  // Whether n columns of so many rows are to be folded.
  bool folds(const Loop& rows, std::int64_t n) const {
    return folds_ && n == kept_.count && rows.count >= 2 * kFoldedColumns;
  }

  const Plan& plan_;
  const Request& request_;
  const Executor& executor_;
  const Loop& kept_;
  const Format& input_format_;
  const Format& output_format_;
  const SumFormat sum_format_;
  const std::int64_t bytes_;         // of an element that a kernel reads
  const std::int64_t stored_bytes_;  // of one in memory
  const std::int64_t terms_;
  Method method_;
  Function kernel_;  // of method_
  decltype(Rounder::function) round_ = nullptr;
  Exactly exactly_;
  ExactFunction exact_rows_;
  ExactFunction exact_columns_;
  bool exact_;           // every output is summed exactly
  bool whole_elements_;  // native ones, and each at a multiple of its size
  bool folds_;           // the plan is one to fold

  // Tasks are tiles of outputs; inner_threads_ share the terms of each.
  std::int64_t tile_ = 1;
  std::int64_t tiles_per_row_ = 1;
  std::int64_t tasks_ = 0;
  std::int64_t tasks_per_turn_ = 1;
  int inner_threads_ = 1;
  std::vector<std::unique_ptr<Workspace>> workspaces_;       // one for each worker
  std::vector<std::unique_ptr<Workspace>> part_workspaces_;  // the same, within a task
  std::mutex mutex_;
  const std::thread::id caller_ = std::this_thread::get_id();
};

}  // namespace

void read_environment() {
  static_cast<void>(chosen_target());
  static_cast<void>(thread_limit());
}

bool is_long(const Plan& plan) {
  double elements = 1;
  for (const Loops* loops : {&plan.kept, &plan.reduced}) {
    elements *= static_cast<double>(std::max<std::int64_t>(1, loops->count()));
  }
  const Loop& kept = plan.kept.innermost();
  const Loop& reduced = plan.reduced.innermost();
  const bool near = (kept.count > 1 && kept.input <= kNearBytes) ||
                    (reduced.count > 1 && reduced.input <= kNearBytes);
  return elements * (near ? 1 : kAlone) > kLongElements;
}

void reduce(const Plan& plan, const Request& request, const Executor& executor) {
  Reduction(plan, request, executor).run();
}

}  // namespace halfulp
