#include "processors.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#if defined(__linux__)
#include <sched.h>
#endif

namespace halfulp {
namespace {

#if defined(__linux__)
// Calls f with each line of a file, if there is one.
template <class F>
void for_each_line(const std::string& path, F f) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (!file) return;
  std::string line;
  for (int c; (c = std::getc(file)) != EOF;) {
    if (c == '\n') {
      f(line);
      line.clear();
    } else {
      line += static_cast<char>(c);
    }
  }
  if (!line.empty()) f(line);
  std::fclose(file);
}

// Takes what stands before the next separator, if any, off the front of a text.
std::string take(std::string& text, char separator) {
  const std::size_t end = text.find(separator);
  std::string front = text.substr(0, end);
  text.erase(0, end == std::string::npos ? end : end + 1);
  return front;
}

bool lists(std::string names, const std::string& name) {
  while (!names.empty()) {
    if (take(names, ',') == name) return true;
  }
  return false;
}

// The quota in processors that one group has, without end if none: of version 2 in one file,
// "max" or a number, and the period; of version 1 in two, -1 for none.
double quota_of(const std::string& group, bool is_version_2) {
  double quota = -1;
  double period = 0;
  if (is_version_2) {
    for_each_line(group + "/cpu.max", [&](const std::string& line) {
      if (std::sscanf(line.c_str(), "%lf %lf", &quota, &period) != 2) quota = -1;
    });
  } else {
    const auto read = [&](const char* name, double* number) {
      for_each_line(group + name, [number](const std::string& line) {
        if (std::sscanf(line.c_str(), "%lf", number) != 1) *number = -1;
      });
    };
    read("/cpu.cfs_quota_us", &quota);
    read("/cpu.cfs_period_us", &period);
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

// The least quota of a group and of those around it, up to the one that is mounted.
double least_quota(const std::string& mounted, std::string group, bool is_version_2) {
  double least = quota_of(mounted, is_version_2);
  for (; group.size() > 1; group.erase(group.rfind('/'))) {
    least = std::min(least, quota_of(mounted + group, is_version_2));
  }
  return least;
}
#endif

}  // namespace

int processor_quota([[maybe_unused]] const char* root) {
  double least = std::numeric_limits<double>::infinity();
#if defined(__linux__)
  const std::string base = root;
  // Lines of "id:controllers:group"; version 2 has no controllers there.
  for_each_line(base + "/proc/self/cgroup", [&](std::string line) {
    take(line, ':');
    const std::string controllers = take(line, ':');
    const bool is_version_2 = controllers.empty();
    const std::string group = line;
    if ((!is_version_2 && !lists(controllers, "cpu")) || group.empty() || group[0] != '/') {
      return;
    }
    // Lines of "id parent device root mount options... - type source options".
    for_each_line(base + "/proc/self/mountinfo", [&](std::string mount) {
      for (int i = 0; i < 3; ++i) take(mount, ' ');
      std::string top = take(mount, ' ');
      const std::string mounted = base + take(mount, ' ');
      while (!mount.empty() && take(mount, ' ') != "-") continue;
      const std::string type = take(mount, ' ');
      take(mount, ' ');
      if (is_version_2 ? type != "cgroup2" : type != "cgroup" || !lists(mount, "cpu")) return;
      if (top == "/") top.clear();
      // Of a group outside of what is mounted here, nothing but the mounted one is seen.
      const bool is_inside = group.compare(0, top.size(), top) == 0 &&
                             (group.size() == top.size() || group[top.size()] == '/');
      least = std::min(
          least, least_quota(mounted, is_inside ? group.substr(top.size()) : "", is_version_2));
    });
  });
#endif
  if (least > std::numeric_limits<int>::max()) return 0;
  const int whole = static_cast<int>(least);
  return whole + (whole < least ? 1 : 0);
}

int usable_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
#endif
  const int quota = processor_quota("");
  if (quota > 0) count = std::min(count, quota);
  return std::max(1, count);
}

}  // namespace halfulp
