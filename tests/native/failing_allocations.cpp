// Makes allocations of one library fail, for tests/core/test_allocations.py: preloaded into a
// process, it takes the place of operator new and, for libraries with a C++ runtime of their
// own, of malloc. Linux only.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Where the library lies.
std::atomic<std::uintptr_t> first{0};
std::atomic<std::uintptr_t> last{0};

// Of its allocations, numbered from 1, those from fail_from to fail_to fail.
std::atomic<long> number{0};
std::atomic<long> fail_from{0};
std::atomic<long> fail_to{0};

bool fails(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (address < first.load() || address >= last.load()) return false;
  const long n = ++number;
  return n >= fail_from.load() && n <= fail_to.load();
}

int find(dl_phdr_info* info, std::size_t, void* path) {
  if (std::strcmp(info->dlpi_name, static_cast<const char*>(path)) != 0) return 0;
  std::uintptr_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const std::uintptr_t part_end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
    end = part_end > end ? part_end : end;
  }
  first = info->dlpi_addr;
  last = end;
  return 1;
}

void* next_new(const char* name, std::size_t bytes, const void* caller) {
  if (fails(caller)) throw std::bad_alloc();
  using New = void* (*)(std::size_t);
  return reinterpret_cast<New>(dlsym(RTLD_NEXT, name))(bytes);
}

}  // namespace

extern "C" {

// Watches the library loaded from `path`; returns whether there is one.
bool watch_allocations(const char* path) {
  return dl_iterate_phdr(find, const_cast<char*>(path)) == 1;
}

// Lets those allocations fail that are numbered from..to from now on.
void fail_allocations(long from, long to) {
  fail_from = from;
  fail_to = to;
  number = 0;
}

// How many there were since.
long count_allocations() { return number; }

#if !defined(ONLY_NEW)  // a sanitizer has a malloc of its own
void* __libc_malloc(std::size_t bytes);

void* malloc(std::size_t bytes) {
  if (!fails(__builtin_return_address(0))) return __libc_malloc(bytes);
  errno = ENOMEM;
  return nullptr;
}
#endif
}

void* operator new(std::size_t bytes) {
  return next_new("_Znwm", bytes, __builtin_return_address(0));
}

void* operator new[](std::size_t bytes) {
  return next_new("_Znam", bytes, __builtin_return_address(0));
}
