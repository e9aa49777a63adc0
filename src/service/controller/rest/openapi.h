// docs/openapi.yaml, which is built into the program.
#pragma once

#include <string_view>

namespace longhaul::service {

std::string_view OpenApiText();

}  // namespace longhaul::service
