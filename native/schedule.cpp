#include "schedule.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace halfulp {

std::int64_t Schedule::workers_for(const Plan& plan, std::int64_t element_bytes,
                                   const Executor& executor) {
  const double bytes = static_cast<double>(plan.kept.count()) *
                       static_cast<double>(plan.reduced.count()) *
                       static_cast<double>(element_bytes);
  const auto unit = static_cast<double>(bytes_per_thread());
  if (bytes < 2 * unit) return 1;  // soon, since it is so for most calls
  return static_cast<std::int64_t>(
      std::min(bytes / unit, static_cast<double>(std::max(executor.limit(), 1))));
}

Schedule::Schedule(const Plan& plan, std::int64_t workers, std::int64_t widest,
                   const Executor& executor, Watch* watch)
    : plan_(plan), executor_(executor), watch_(watch) {
  const std::int64_t row = plan.kept.innermost().count;
  std::int64_t rows = 1;
  for (int i = 0; i < plan.kept.size - 1; ++i) rows *= plan.kept.loops[i].count;
  tile_ = std::min(row, widest);
  if (workers > 1 && rows < 4 * workers) {
    // Four turns for each worker even out their speed; columns lose more by narrow tiles.
    const bool by_rows = plan.layout == Layout::rows;
    const std::int64_t turns = by_rows ? 4 * workers : workers;
    const std::int64_t fair = (row * rows + turns - 1) / turns;
    tile_ = std::min(tile_, std::max<std::int64_t>(fair, by_rows ? 1 : kSmallestTile));
  }
  if (tile_ < row) tiles_per_row_ = (row + tile_ - 1) / tile_;
  tiles_ = rows * tiles_per_row_;
  if (workers == 1) return;
  tiles_per_turn_ = std::max<std::int64_t>(1, tiles_ / (8 * workers));
  if (tiles_ >= workers) {
    workers_ = workers;
    return;
  }
  const Loop* const loops = plan.reduced.loops;
  for (int i = 1; i < plan.reduced.size; ++i) {
    if (loops[i].count > loops[split_].count) split_ = i;
  }
  parts_ = std::min(workers, loops[split_].count);
}

Part Schedule::part_at(std::int64_t item) const {
  Part part = {plan_.reduced, {0, 0}};
  Loop& split = part.reduced.loops[split_];
  const std::int64_t begin = split.count * item / parts_;
  split.count = split.count * (item + 1) / parts_ - begin;
  part.input = begin * split.input;
  return part;
}

void Schedule::share_turns(std::int64_t items, std::int64_t per_turn, std::int64_t workers,
                           const Turn& turn) const {
  std::atomic<std::int64_t> next_item{0};
  std::atomic<std::size_t> next_worker{0};
  std::exception_ptr failure;
  std::int64_t failed_item = items;
  int running = 0;
  std::mutex mutex;  // guards the three
  std::optional<std::condition_variable> ended;
  const std::thread::id caller = std::this_thread::get_id();
  if (watch_) ended.emplace();
  const auto work = [&] {
    std::int64_t item = 0;
    if (watch_) {
      const std::lock_guard<std::mutex> guard(mutex);
      ++running;
    }
    try {
      const StandardModes modes;
      const std::size_t worker = next_worker.fetch_add(1);
      for (;;) {
        item = next_item.fetch_add(per_turn);
        if (item >= items) break;
        turn(item, std::min(item + per_turn, items), worker);
      }
    } catch (...) {
      // Items before this one were taken before it, so that they end or fail themselves.
      const std::lock_guard<std::mutex> guard(mutex);
      if (item < failed_item) {
        failure = std::current_exception();
        failed_item = item;
      }
      next_item.store(items);
    }
    if (!watch_) return;
    // Nothing would be heard while the thread that asks waits for others to end.
    std::unique_lock<std::mutex> lock(mutex);
    --running;
    ended->notify_all();
    while (std::this_thread::get_id() == caller && running > 0) {
      ended->wait_for(lock, Watch::kInterval);
      lock.unlock();
      watch_->ends();
      lock.lock();
    }
  };
  executor_.run(static_cast<int>(workers), std::ref(work));  // by reference: no memory
  if (watch_) watch_->look();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace halfulp
