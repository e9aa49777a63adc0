// The types of plain scalars in YAML as Kubernetes reads it: YAML 1.1, where `yes` is true and 0644
// is an octal number.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// The value of a scalar without quotes: null, a truth value, a number or a text. Nothing for a
// number that JSON does not have, or that needs more than 64 bits.
std::optional<JobJson> PlainScalarValue(std::string_view text);

// The text as a scalar that is read back as this text: plain where that is certain, else in double
// quotes. One line.
std::string ScalarOfText(std::string_view text);

}  // namespace longhaul::engines::kubernetes
