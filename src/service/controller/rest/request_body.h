// Bodies of REST requests as JSON objects, with errors that name the place and the problem.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace longhaul::service {

constexpr size_t kLongestText = 4096;

// Returns kInvalidArgument with line and column if the body isn't JSON, nests too deep or isn't an
// object.
Result<nlohmann::ordered_json> ParseObject(std::string_view body);

// Returns an error with the first unknown key and the most similar known one.
Status RefuseUnknown(const nlohmann::ordered_json& json, std::span<const std::string_view> known);

// Reads a text of the object, if it has the key: at most kLongestText bytes, without a zero byte.
Status TakeText(const nlohmann::ordered_json& json, const char* key, std::string& target);

}  // namespace longhaul::service
