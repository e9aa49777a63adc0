#include "runtime/scheduling/what_if_change.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/text.h"

namespace longhaul::runtime::scheduling {
namespace {

using Kind = WhatIfChange::Kind;
using Words = std::vector<std::string_view>;

constexpr size_t kLongestChange = 4'200;  // "submit" and the longest path
constexpr size_t kLongestName = 253;
constexpr uint64_t kMostDevices = 1'000'000;
constexpr uint64_t kMostAccelerators = 1'000'000'000;
constexpr uint64_t kMostPerNode = 16;

constexpr std::array<std::string_view, 5> kVerbs = {"drain", "add", "queue", "stop", "submit"};
constexpr std::array<const char*, 5> kForms = {
    "drain NODE, drain DOMAIN or drain LEVEL DOMAIN", "add N MODEL [per-node K] [in LEAF]",
    "queue NAME guarantee N or queue NAME limit N", "stop JOB", "submit FILE"};

Words WordsOf(std::string_view text) {
  Words words;
  for (const std::string_view word : Split(text, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

Status Wrong(size_t verb, std::string_view text) {
  return InvalidArgument("'" + Printable(text, 80) + "' is not a change, expected " + kForms[verb]);
}

// A whole number from `least` to `most`.
Result<uint32_t> Count(std::string_view word, const char* what, uint64_t least, uint64_t most) {
  const Result<uint64_t> number = ParseUint64(word);
  if (number.ok() && *number >= least && *number <= most) return static_cast<uint32_t>(*number);
  return InvalidArgument("'" + Printable(word, 40) + "' is not a number of " + what +
                         ", expected " + WithThousands(static_cast<int64_t>(least)) + " to " +
                         WithThousands(static_cast<int64_t>(most)));
}

Result<WhatIfChange> ParseAdd(const Words& words, std::string_view text) {
  if (words.size() < 3 || words.size() % 2 == 0 || words.size() > 7) return Wrong(1, text);
  WhatIfChange change;
  change.kind = Kind::kAdd;
  ASSIGN_OR_RETURN(change.count, Count(words[1], "devices", 1, kMostDevices));
  change.subject = words[2];
  for (size_t i = 3; i < words.size(); i += 2) {
    if (words[i] == "per-node" && change.per_node == 0) {
      ASSIGN_OR_RETURN(change.per_node, Count(words[i + 1], "devices per node", 1, kMostPerNode));
    } else if (words[i] == "in" && change.leaf.empty()) {
      change.leaf = words[i + 1];
    } else {
      return Wrong(1, text);
    }
  }
  if (change.per_node > 0 && change.count % change.per_node != 0) {
    return InvalidArgument(std::to_string(change.count) + " devices are not whole nodes of " +
                           std::to_string(change.per_node));
  }
  return change;
}

Result<WhatIfChange> ParseQueue(const Words& words, std::string_view text) {
  if (words.size() != 4 || (words[2] != "guarantee" && words[2] != "limit")) return Wrong(2, text);
  WhatIfChange change;
  change.kind = words[2] == "limit" ? Kind::kLimit : Kind::kGuarantee;
  change.subject = words[1];
  change.unlimited = change.kind == Kind::kLimit && words[3] == "none";
  if (change.unlimited) return change;
  ASSIGN_OR_RETURN(change.count, Count(words[3], "accelerators", 0, kMostAccelerators));
  return change;
}

Result<WhatIfChange> ParseWords(const Words& words, std::string_view text) {
  const auto verb = std::find(kVerbs.begin(), kVerbs.end(), words.front());
  const auto number = static_cast<size_t>(verb - kVerbs.begin());
  WhatIfChange change;
  switch (number) {
    case 0:
      if (words.size() != 2 && words.size() != 3) return Wrong(number, text);
      change.kind = Kind::kDrain;
      change.subject = words.back();
      if (words.size() == 3) change.level = words[1];
      return change;
    case 1:
      return ParseAdd(words, text);
    case 2:
      return ParseQueue(words, text);
    case 3:
      if (words.size() != 2) return Wrong(number, text);
      change.kind = Kind::kStop;
      change.subject = words[1];
      return change;
    case 4:
      if (words.size() < 2) return Wrong(number, text);
      change.kind = Kind::kSubmit;
      // A path may contain spaces.
      change.subject = Trim(Trim(text).substr(kVerbs[number].size()));
      return change;
    default:
      break;
  }
  const auto meant = Nearest(words.front(), kVerbs);
  return InvalidArgument("'" + Printable(words.front(), 40) + "' is not a change" +
                         (meant ? ", did you mean '" + std::string(*meant) + "'" : "") +
                         "; expected drain, add, queue, stop or submit");
}

}  // namespace

Result<WhatIfChange> ParseWhatIfChange(std::string_view text) {
  if (text.size() > kLongestChange) {
    return InvalidArgument("a change has " + std::to_string(text.size()) + " bytes, at most " +
                           std::to_string(kLongestChange) + " are allowed");
  }
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != '\x7f';
  });
  const Words words = WordsOf(text);
  if (!printable || words.empty()) {
    return InvalidArgument("'" + Printable(text, 80) +
                           "' is not a change; expected drain, add, queue, stop or submit");
  }
  ASSIGN_OR_RETURN(WhatIfChange change, ParseWords(words, text));
  const size_t longest = change.kind == Kind::kSubmit ? kLongestChange : kLongestName;
  for (const std::string* name : {&change.subject, &change.level, &change.leaf}) {
    if (name->size() <= longest) continue;
    return InvalidArgument("'" + Printable(*name, 40) + "' has " + std::to_string(name->size()) +
                           " bytes, a name has at most " + std::to_string(longest));
  }
  return change;
}

std::string ToString(const WhatIfChange& change) {
  switch (change.kind) {
    case Kind::kDrain:
      return "drain " + (change.level.empty() ? "" : change.level + " ") + change.subject;
    case Kind::kAdd:
      return "add " + std::to_string(change.count) + " " + change.subject +
             (change.per_node == 0 ? "" : " per-node " + std::to_string(change.per_node)) +
             (change.leaf.empty() ? "" : " in " + change.leaf);
    case Kind::kGuarantee:
      return "queue " + change.subject + " guarantee " + std::to_string(change.count);
    case Kind::kLimit:
      return "queue " + change.subject + " limit " +
             (change.unlimited ? "none" : std::to_string(change.count));
    case Kind::kStop:
      return "stop " + change.subject;
    case Kind::kSubmit:
      return "submit " + change.subject;
  }
  return "";
}

}  // namespace longhaul::runtime::scheduling
