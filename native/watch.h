// Ends long calls early, as for Ctrl-C. May include modes.h only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "modes.h"

namespace halfulp {

// What a call throws that ends early. Some of its outputs may be written.
struct Interrupted {};

// Asks now and then whether a call shall end early.
class Watch {
 public:
  // It shall if `interrupted` says so, which the thread that makes this asks, in its own modes.
  explicit Watch(std::function<bool()> interrupted)
      : interrupted_(std::move(interrupted)), next_(Clock::now() + kInterval) {}

  // Whether the call shall end. All threads of the call look between pieces of work that take
  // a few milliseconds at most.
  bool ends() {
    if (ends_.load(std::memory_order_relaxed)) return true;
    if (std::this_thread::get_id() != thread_ || Clock::now() < next_) return false;
    const OtherModes modes(modes_);
    if (interrupted_()) ends_.store(true, std::memory_order_relaxed);
    next_ = Clock::now() + kInterval;
    return ends_.load(std::memory_order_relaxed);
  }

  void look() {
    if (ends()) throw Interrupted{};
  }

  // Long enough that asking costs nothing, short enough that nobody waits.
  static constexpr std::chrono::milliseconds kInterval{100};

 private:
  using Clock = std::chrono::steady_clock;

  std::function<bool()> interrupted_;
  Modes modes_;
  std::thread::id thread_ = std::this_thread::get_id();
  Clock::time_point next_;
  std::atomic<bool> ends_{false};
};

// Counts what one thread does, and looks now and then.
class Pace {
 public:
  // Without a watch it only counts.
  explicit Pace(Watch* watch) : watch_(watch) {}

  // Ends the call if it shall end, after so many elements more.
  void count(std::int64_t elements) {
    unseen_ += elements;
    if (unseen_ < kLookEvery) return;
    unseen_ = 0;
    if (watch_) watch_->look();
  }

 private:
  static constexpr std::int64_t kLookEvery = std::int64_t{1} << 15;

  Watch* watch_;
  std::int64_t unseen_ = 0;  // elements since the last look
};

}  // namespace halfulp
