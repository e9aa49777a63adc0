// The readers of a model's document that ParseModel uses, one for each format.
#pragma once

#include <string_view>

#include "base/status.h"
#include "spec/internal/document.h"
#include "spec/model/model.h"

namespace longhaul::spec::internal {

Result<Model> ReadHuggingFace(const Node& root, std::string_view source);

}  // namespace longhaul::spec::internal
