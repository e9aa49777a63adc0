// The rules for a job's name. It becomes the name of a folder and of a Kubernetes object, a part of
// addresses (/v1/jobs/NAME) and a word of command lines (longhaul status NAME), where it must not
// look like an option.
#pragma once

#include <string_view>

#include "base/status.h"

namespace longhaul::spec {

// 1 to 63 letters, digits, '-', '_' and '.', of which the first is a letter or a digit.
bool IsJobName(std::string_view name);

// kInvalidArgument for any other name; the message describes the rules.
Status CheckJobName(std::string_view name);

}  // namespace longhaul::spec
