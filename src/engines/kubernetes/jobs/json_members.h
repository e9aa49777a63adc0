// Reading members of objects of the API whose form has not been checked.
#pragma once

#include <string>
#include <string_view>

#include "engines/kubernetes/jobs/longhaul_job.h"

namespace longhaul::engines::kubernetes {

// The member of this name, or null if there is none or `object` is no object.
const JobJson& MemberOf(const JobJson& object, std::string_view name);
// The text at this name, or an empty one.
std::string TextAt(const JobJson& object, std::string_view name);
// The condition of this type in a list of conditions, or null.
const JobJson& ConditionIn(const JobJson& conditions, std::string_view type);
// The uid of the owner that controls the object with this metadata, or an empty text.
std::string ControllerUid(const JobJson& meta);

}  // namespace longhaul::engines::kubernetes
