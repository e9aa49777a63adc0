#include "spec/job/job_name.h"

#include <algorithm>

#include "base/text.h"
#include "spec/internal/job_schema.h"

namespace longhaul::spec {
bool IsJobName(std::string_view name) {
  return !name.empty() && name.size() <= internal::kMaxNameBytes && IsLetterOrDigit(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsLetterOrDigit(c) || c == '-' || c == '_' || c == '.'; });
}

Status CheckJobName(std::string_view name) {
  if (IsJobName(name)) return {};
  return InvalidArgument("'" + Printable(name, 70) +
                         "' is not a name: 1 to 63 letters, digits, '-', '_' and '.', a letter or "
                         "digit first");
}

}  // namespace longhaul::spec
