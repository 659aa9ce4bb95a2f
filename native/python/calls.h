// How a call from Python runs: without the interpreter's lock, interrupted by Ctrl-C, with
// errors that Python knows. May include watch.h only.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "../watch.h"

namespace halfulp::python {

namespace nb = nanobind;

// Calls f, which asks for the interpreter's lock or runs Python code, which may ask for it.
//
// While the interpreter ends, CPython up to 3.13 calls pthread_exit then, which in glibc
// unwinds the stack: through frames of C++ that nothing may be thrown through, nanobind's among
// them, so that the process would abort. Such an unwinding can be caught, but not ended. So the
// thread stays here, as CPython itself lets it from 3.14 on. It has no lock: f may hold nothing
// whose destructor touches Python.
template <class F>
auto with_lock(F f) {
  try {
    return f();
  } catch (...) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// While alive, the thread has no lock.
class Unlocked {
 public:
  Unlocked() : thread_(PyEval_SaveThread()) {}
  ~Unlocked() { lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Runs the handlers of signals that have come, and tells whether one raised an exception, as
  // that of Ctrl-C does.
  bool is_interrupted() {
    lock();
    const bool raised = with_lock(&PyErr_CheckSignals) != 0;
    thread_ = PyEval_SaveThread();
    return raised;
  }

 private:
  void lock() const {
    with_lock([this] { PyEval_RestoreThread(thread_); });
  }

  PyThreadState* thread_;
};

// Whether this is the thread that Python runs handlers of signals on. Where Python does not
// tell, as late in its end, it is none.
inline bool handles_signals() {
  PyObject* const ident = with_lock([] {
    PyObject* const threading = PyImport_ImportModule("threading");
    PyObject* const main =
        threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
    PyObject* const found = main ? PyObject_GetAttrString(main, "ident") : nullptr;
    Py_XDECREF(main);
    Py_XDECREF(threading);
    return found;
  });
  const unsigned long main = ident ? PyLong_AsUnsignedLong(ident) : 0;
  Py_XDECREF(ident);
  if (!PyErr_Occurred()) return main == PyThread_get_thread_ident();
  PyErr_Clear();
  return false;
}

enum class Length {
  short_,  // others would wait longer for the lock than for the work
  middle,
  long_,  // long enough to want to interrupt it
};

// Runs f(watch), without the lock unless it is short. With a watch, which a long call has on
// the thread that handles signals, it may be interrupted: f then works on a copy of what it
// would change in place.
template <class F>
void run_unlocked(Length length, bool is_heard, F f) {
  std::optional<Unlocked> unlocked;
  if (length != Length::short_) unlocked.emplace();
  std::optional<Watch> watch;
  if (is_heard) watch.emplace([&] { return unlocked->is_interrupted(); });
  try {
    f(watch ? &*watch : nullptr);
  } catch (const Interrupted&) {
    unlocked.reset();
    throw nb::python_error();
  }
}

// Work on items that each take less than a microsecond.
inline constexpr std::int64_t kFewItems = 1 << 12;
inline constexpr std::int64_t kManyItems = 1 << 20;

inline Length length_of(std::int64_t items) {
  if (items <= kFewItems) return Length::short_;
  return items <= kManyItems ? Length::middle : Length::long_;
}

// Calls f(i) for each item until it returns false.
template <class F>
void for_each_item(std::int64_t items, Watch* watch, F f) {
  for (std::int64_t i = 0; i < items; ++i) {
    if (watch && i % kFewItems == 0) watch->look();
    if (!f(i)) return;
  }
}

// What nanobind calls instead of a function.
template <auto function>
struct Bound;

template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct Bound<function> {
  static Result call(Arguments... arguments) {
    try {
      return function(std::move(arguments)...);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
      throw nb::python_error();
    }
  }
};

}  // namespace halfulp::python
