// The thread loop. Includes nothing of halfulp.
#pragma once

#include <cstdint>
#include <functional>

namespace halfulp {

// The most threads that one call may use, this one included.
int thread_limit();
void set_thread_limit(int limit);

// Input of fewer bytes than this is not worth a thread of its own; 0 sets the default.
std::int64_t bytes_per_thread();
void set_bytes_per_thread(std::int64_t bytes);

// Calls worker() once on each of up to `threads` threads, this one included, and returns
// when all have returned. A worker does not throw.
//
// Threads live for one call: there is no pool to break over fork, interpreter exit or
// another thread's call. Starting one costs some ten microseconds, so work is split in
// parts far longer than that.
void run_on_threads(int threads, const std::function<void()>& worker);

}  // namespace halfulp
