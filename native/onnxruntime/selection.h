// Which reductions take the place of the runtime's: as people choose, or by default.
// May include reductions.h and runtime.h only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>

#include "../reductions.h"
#include "runtime.h"

namespace halfulp::onnxruntime {

// A set of rows of the table, a bit for each.
using Selection = std::uint32_t;
inline constexpr std::size_t kRows = std::size(kReductions);
static_assert(kRows <= 32);

// The operators' names, with commas between.
inline std::string names_of(Selection selection) {
  std::string names;
  for (std::size_t i = 0; i < kRows; ++i) {
    if (!(selection >> i & 1)) continue;
    if (!names.empty()) names += ", ";
    names += kReductions[i].operator_name;
  }
  return names;
}

// Those that `text` names, with commas between and blanks wherever. `where` is what has it.
inline Selection selection_of(const std::string& text, const std::string& where) {
  constexpr Selection all = (Selection{1} << kRows) - 1;
  const char* const blanks = " \t\n\r";
  Selection selection = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    std::string name = text.substr(start, end - start);
    name.erase(0, std::min(name.find_first_not_of(blanks), name.size()));
    name.erase(name.find_last_not_of(blanks) + 1);
    Selection found = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      if (name == kReductions[i].operator_name) found = Selection{1} << i;
    }
    if (!found) {
      throw std::invalid_argument("halfulp: " + where + " has '" + name.substr(0, 80) +
                                  "'; allowed: " + names_of(all) + ", with commas between");
    }
    selection |= found;
    start = end + 1;
  }
  return selection;
}

// All, but for those that the runtime's optimizers look for, where they would no longer find
// them. They look for sums and means: in layer norms, attention and embeddings.
inline Selection default_selection(const Runtime& runtime) {
  Selection selection = 0;
  for (std::size_t i = 0; i < kRows; ++i) {
    if (runtime.start_version == 0 && kReductions[i].term == Term::value) continue;
    selection |= Selection{1} << i;
  }
  return selection;
}

}  // namespace halfulp::onnxruntime
