// Threads. Includes nothing of halfulp; its source processors.h only.
#pragma once

#include <cstdint>
#include <functional>

namespace halfulp {

// What runs the workers of one call: threads of halfulp's own, or those of a host.
class Executor {
 public:
  virtual ~Executor() = default;

  // The most workers that may run at once.
  virtual int limit() const = 0;

  // Calls worker() at least once and at most `count` times, at once as far as possible, and
  // returns when all calls have. Workers share what there is to do; they do not throw.
  // Neither does this: that a thread does not start is no failure.
  virtual void run(int count, const std::function<void()>& worker) const = 0;
};

// Threads that live for one call: there is no pool to break over fork, interpreter exit or
// another thread's call. Starting one costs some ten microseconds.
const Executor& own_threads();

// The limit of own_threads: at first HALFULP_NUM_THREADS, else the processors that this
// process may use, and no more than OMP_NUM_THREADS.
int thread_limit();
void set_thread_limit(int limit);

// Input of fewer bytes than this is not worth a thread of its own; 0 sets the default.
std::int64_t bytes_per_thread();
void set_bytes_per_thread(std::int64_t bytes);

}  // namespace halfulp
