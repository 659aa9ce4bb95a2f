// What is known of a runtime, and how calls of its interface fail. May include abi.h only.
#pragma once

#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>

#include "abi.h"

namespace halfulp::onnxruntime {

// What the runtime itself says about a call that failed.
struct Failure {
  OrtStatus* status;
};

// Runs f; whatever it throws becomes a status, as nothing may be thrown into the runtime.
template <class F>
OrtStatus* guarded(Api api, F f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const Failure& failure) {
    return failure.status;
  } catch (const std::invalid_argument& error) {
    return api(CreateStatus, kInvalidArgument, error.what());
  } catch (const std::exception& error) {
    return api(CreateStatus, kFail, error.what());
  }
}

inline void check(OrtStatus* status) {
  if (status) throw Failure{status};
}

// What is known of a runtime. A process may hold several.
struct Runtime {
  // The operators. Sessions do not own it, so there is one for all of them.
  OrtCustomOpDomain* domain = nullptr;
  bool is_newer = false;
};

// That of an interface, for as long as the process lives, like all that sessions refer to:
// they end at whatever time.
inline Runtime& runtime_of(const OrtApi* api) {
  static std::mutex mutex;
  static auto* const runtimes = new std::map<const OrtApi*, Runtime>;
  const std::lock_guard<std::mutex> guard(mutex);
  return (*runtimes)[api];
}

// Whether a call succeeded that need not.
inline bool succeeded(Api api, OrtStatus* status) {
  if (status) api(ReleaseStatus, status);
  return !status;
}

}  // namespace halfulp::onnxruntime
