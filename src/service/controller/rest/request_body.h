// Bodies of REST requests as JSON objects, with errors that say where and what.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::service {

constexpr size_t kLongestText = 4096;

// kInvalidArgument with line and column for what is no JSON, nests too deep or is no object.
Result<nlohmann::ordered_json> ParseObject(std::string_view body);

// Names the first key that isn't known, and the one that was probably meant.
Status RefuseUnknown(const nlohmann::ordered_json& json, std::span<const std::string_view> known);

// A text of the object, if it is there: at most kLongestText bytes, without a zero byte.
Status TakeText(const nlohmann::ordered_json& json, const char* key, std::string& target);

}  // namespace longhaul::service
