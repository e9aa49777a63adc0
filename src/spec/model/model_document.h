// A model's document beneath ParseModel: one reader for each format.
#pragma once

#include <string_view>

#include "base/status.h"
#include "spec/internal/document.h"
#include "spec/model/model.h"

namespace longhaul::spec::internal {

Result<Model> ReadHuggingFace(const Node& root, std::string_view source);

}  // namespace longhaul::spec::internal
