#include "parallel.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "processors.h"

namespace halfulp {
namespace {

// The number that a variable of the environment holds, in a list of OpenMP's the first; 0 if
// it holds none.
int threads_in(const char* variable, bool is_list) {
  const char* text = std::getenv(variable);
  if (!text) return 0;
  char* end;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  if (errno != 0 || end == text || value < 1 || value > 1 << 20) return 0;
  if (is_list) end += std::strspn(end, " \t");
  return *end == '\0' || (is_list && *end == ',') ? static_cast<int>(value) : 0;
}

int initial_limit() {
  if (const int threads = threads_in("HALFULP_NUM_THREADS", false)) return threads;
  const int threads = threads_in("OMP_NUM_THREADS", true);
  const int processors = usable_processors();
  return threads > 0 ? std::min(threads, processors) : processors;
}

std::atomic<int>& limit() {
  static std::atomic<int> value{initial_limit()};
  return value;
}

// Reading as much takes several times as long as to start a thread.
constexpr std::int64_t kBytesPerThread = 1024 * 1024;

std::atomic<std::int64_t>& worth() {
  static std::atomic<std::int64_t> value{kBytesPerThread};
  return value;
}

class OwnThreads : public Executor {
 public:
  int limit() const override { return thread_limit(); }

  void run(int count, const std::function<void()>& worker) const override {
    Helpers helpers;
    helpers.start(count - 1, worker);
    worker();
  }

 private:
  // Threads that are joined whatever happens.
  class Helpers {
   public:
    Helpers() = default;
    Helpers(const Helpers&) = delete;
    Helpers& operator=(const Helpers&) = delete;
    ~Helpers() {
      for (std::thread& thread : threads_) thread.join();
    }

    // Starts `count` threads, or fewer where there are no more threads or no more memory to
    // be had: those that run do all the work.
    void start(int count, const std::function<void()>& worker) {
      try {
        threads_.reserve(count);
        for (int i = 0; i < count; ++i) threads_.emplace_back(std::cref(worker));
      } catch (const std::exception&) {
      }
    }

   private:
    std::vector<std::thread> threads_;
  };
};

}  // namespace

int thread_limit() { return limit().load(std::memory_order_relaxed); }

void set_thread_limit(int value) { limit().store(value, std::memory_order_relaxed); }

std::int64_t bytes_per_thread() { return worth().load(std::memory_order_relaxed); }

void set_bytes_per_thread(std::int64_t bytes) {
  worth().store(bytes > 0 ? bytes : kBytesPerThread, std::memory_order_relaxed);
}

const Executor& own_threads() {
  static const OwnThreads threads;
  return threads;
}

}  // namespace halfulp
