// What is known of a runtime, and how calls of its interface fail. May include abi.h only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

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
  bool is_known = false;
  bool is_newer = false;
  // From which version on operators are the library's. The optimizers match nodes by versions,
  // of which 1 is one and 0 is none. Before 1.32 it must be 0: where constants are folded, the
  // runtime takes its own kernels for operators of other versions, and fails.
  int start_version = 0;
  // The operators, by selection. Sessions do not own them, so there is one for all of them.
  std::map<std::uint32_t, OrtCustomOpDomain*> domains;
};

// That of an interface, for as long as the process lives, like all that sessions refer to:
// they end at whatever time.
inline Runtime& runtime_of(const OrtApi* api) {
  static std::mutex mutex;
  static auto* const runtimes = new std::map<const OrtApi*, Runtime>;
  const std::lock_guard<std::mutex> guard(mutex);
  return (*runtimes)[api];
}

// The text that get(buffer, &size) writes; size counts its final zero too.
template <class Get>
std::string text_of(Get get) {
  std::size_t size = 0;
  check(get(nullptr, &size));
  std::string text(size, '\0');
  check(get(text.data(), &size));
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

// Whether a call succeeded that need not.
inline bool succeeded(Api api, OrtStatus* status) {
  if (status) api(ReleaseStatus, status);
  return !status;
}

}  // namespace halfulp::onnxruntime
