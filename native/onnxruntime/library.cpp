// The reductions inside ONNX Runtime: the library that sessions load. No arithmetic.
// May include abi.h, infer_shape.h, node.h, reduce.h, reductions.h, runtime.h and selection.h
// only.
//
// An operator of the domain "" takes the place of the runtime's own, with all element types: a
// node of the library's operator no longer finds the runtime's kernels. Operators of one name
// must agree in their inputs, so there is one for each element type, for all versions: the
// node tells by its attributes and inputs what its version means.
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#if defined(__APPLE__)
#include <dlfcn.h>
#endif

#include "../reduce.h"
#include "../reductions.h"
#include "abi.h"
#include "infer_shape.h"
#include "node.h"
#include "runtime.h"
#include "selection.h"

namespace halfulp::onnxruntime {
namespace {

// Which reductions to take: an entry of a session's options and, where there is none, a
// variable of the environment. Both have names of operators with commas between.
constexpr char kOperators[] = "halfulp.operators";
constexpr char kOperatorsVariable[] = "HALFULP_ONNXRUNTIME_OPERATORS";

// An entry of options that names the operators in them. It is in the options themselves, and
// so goes where a copy of them goes; a session refuses a domain that was added twice.
constexpr char kRegistered[] = "halfulp.registered";

// The first release, 1.32, that folds constants beside operators of a library that have the
// versions of its own.
constexpr int kFoldingRelease = 32;

// A reduction's operator of one element type, in one runtime.
struct Operator : OrtCustomOp {
  const Reduction& reduction;
  const DataType type;
  const OrtApi* const runtime;

  Operator(const Reduction& row, DataType of, const OrtApi* in)
      : OrtCustomOp{}, reduction(row), type(of), runtime(in) {
    const auto zero = [](const OrtCustomOp*) { return 0; };
    const auto zero_at = [](const OrtCustomOp*, std::size_t) { return 0; };
    version = kApiVersion;
    GetName = [](const OrtCustomOp* op) { return of_op(op).reduction.operator_name; };
    GetExecutionProviderType = [](const OrtCustomOp*) -> const char* { return nullptr; };
    GetInputType = [](const OrtCustomOp* op, std::size_t i) {
      return i == 0 ? of_op(op).type.code() : static_cast<int>(Type::int64);
    };
    GetInputTypeCount = [](const OrtCustomOp* op) {
      return std::size_t{of_op(op).reduction.versions.have(AxesPlace::input) ? 2U : 1U};
    };
    GetOutputType = [](const OrtCustomOp* op, std::size_t) { return of_op(op).type.code(); };
    GetOutputTypeCount = [](const OrtCustomOp*) { return std::size_t{1}; };
    GetInputCharacteristic = [](const OrtCustomOp*, std::size_t i) { return i == 0 ? 0 : 1; };
    GetOutputCharacteristic = zero_at;
    // The runtime calls these without asking whether they are null.
    GetInputMemoryType = zero_at;
    GetVariadicInputMinArity = zero;
    GetVariadicInputHomogeneity = zero;
    GetVariadicOutputMinArity = zero;
    GetVariadicOutputHomogeneity = zero;
    // Older runtimes crash before they call it, where an input has the empty name.
    if (runtime_of(in).is_newer) {
      InferOutputShapeFn = [](const OrtCustomOp* op, OrtShapeInferContext* context) {
        const Api api(of_op(op).runtime);
        return guarded(
            api, [&] { ShapeInference(api, of_op(op).reduction.versions, context).run(); });
      };
    }
    GetStartVersion = [](const OrtCustomOp* op) {
      return runtime_of(of_op(op).runtime).start_version;
    };
    GetEndVersion = [](const OrtCustomOp*) { return std::numeric_limits<int>::max(); };
    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info,
                        void** kernel) {
      return guarded(Api(api), [&] {
        *kernel = new Node(api, of_op(op).reduction, of_op(op).type, info);
      });
    };
    KernelComputeV2 = [](void* kernel, OrtKernelContext* context) {
      const Node& node = *static_cast<const Node*>(kernel);
      return guarded(node.api(), [&] { node.compute(context); });
    };
    KernelDestroy = [](void* kernel) { delete static_cast<Node*>(kernel); };
  }

  static const Operator& of_op(const OrtCustomOp* op) {
    return *static_cast<const Operator*>(op);
  }
};

// The domain and the operators in it, for as long as the process lives.
OrtCustomOpDomain* make_domain(const OrtApi* runtime, Selection selection) {
  const Api api(runtime);
  OrtCustomOpDomain* domain = nullptr;
  check(api(CreateCustomOpDomain, "", &domain));
  try {
    for (std::size_t i = 0; i < kRows; ++i) {
      if (!(selection >> i & 1)) continue;
      const Reduction& reduction = kReductions[i];
      const TypeSet types = reduction.versions.types();
      const auto add = [&](DataType type) {
        check(api(CustomOpDomain_Add, domain, new Operator(reduction, type, runtime)));
      };
      for (const Format& format : kFormats) {
        if (types & set_of(format.type)) add({format.type});
      }
      for (const SmallFormat& format : kSmallFormats) {
        if (types & set_of(format.type)) add({format.read_as, &format});
      }
    }
  } catch (...) {
    api(ReleaseCustomOpDomain, domain);
    throw;
  }
  return domain;
}

// This library must stay loaded. ELF's linker has an option for that, macOS's has none.
void stay_loaded() {
#if defined(__APPLE__)
  Dl_info here;
  if (dladdr(reinterpret_cast<void*>(&stay_loaded), &here)) {
    dlopen(here.dli_fname, RTLD_LAZY | RTLD_NODELETE);
  }
#endif
}

// Of 1.x; GetApi would log an error where it is too old.
int minor_release(const OrtApiBase* base) {
  int minor = 0;
  return std::sscanf(base->GetVersionString(), "1.%d", &minor) == 1 ? minor : 0;
}

// The value of an entry of options; empty if there is none.
std::optional<std::string> entry_of(Api api, const OrtSessionOptions* options,
                                    const char* name) {
  int has = 0;
  check(api(HasSessionConfigEntry, options, name, &has));
  if (!has) return std::nullopt;
  return text_of([&](char* text, std::size_t* size) {
    return api(GetSessionConfigEntry, options, name, text, size);
  });
}

// What the options or the environment choose; empty if neither does.
std::optional<Selection> chosen_in(const std::optional<std::string>& entry) {
  if (entry) {
    return selection_of(*entry, std::string("the session config entry ") + kOperators);
  }
  if (const char* variable = std::getenv(kOperatorsVariable)) {
    return selection_of(variable, kOperatorsVariable);
  }
  return std::nullopt;
}

void register_known(Runtime& runtime, const OrtApi* found, OrtSessionOptions* options) {
  const Api api(found);
  const std::optional<std::string> entry = entry_of(api, options, kOperators);
  if (const auto registered = entry_of(api, options, kRegistered)) {
    if (entry && chosen_in(entry) != selection_of(*registered, kRegistered)) {
      throw std::invalid_argument(std::string("halfulp: the session config entry ") +
                                  kOperators + " is '" + *entry + "', and the options have " +
                                  *registered + " already; allowed: the same, or new options");
    }
    return;
  }
  const Selection selection = chosen_in(entry).value_or(default_selection(runtime));
  OrtCustomOpDomain*& domain = runtime.domains[selection];
  if (!domain) domain = make_domain(found, selection);
  check(api(AddCustomOpDomain, options, domain));
  check(api(AddSessionConfigEntry, options, kRegistered, names_of(selection).c_str()));
}

OrtStatus* register_in(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  if (const OrtApi* found = base->GetApi(kApiVersion)) {
    return guarded(Api(found), [&] {
      static std::mutex mutex;
      const std::lock_guard<std::mutex> guard(mutex);
      Runtime& runtime = runtime_of(found);
      if (!runtime.is_known) {
        const int release = minor_release(base);
        runtime.is_newer = release >= static_cast<int>(kNewerApiVersion);
        runtime.start_version = release >= kFoldingRelease ? 1 : 0;
        stay_loaded();
        read_environment();
        runtime.is_known = true;
      }
      register_known(runtime, found, options);
    });
  }
  const Api api(base->GetApi(1));
  return guarded(api, [&] {
    throw std::runtime_error("halfulp: onnxruntime is " +
                             std::string(base->GetVersionString()) +
                             "; allowed: 1.17 and later");
  });
}

}  // namespace
}  // namespace halfulp::onnxruntime

// What onnxruntime looks up in a library of operators.
extern "C" __attribute__((visibility("default"))) halfulp::onnxruntime::OrtStatus*
RegisterCustomOps(halfulp::onnxruntime::OrtSessionOptions* options,
                  const halfulp::onnxruntime::OrtApiBase* base) {
  return halfulp::onnxruntime::register_in(options, base);
}
